"""The collective runtime between real processes: meeting again after a restart, time limits, kinds of values."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
import torch.distributed as dist

from fleet.collective.world.rendezvous import open_store
from fleet.collective.world.worlds import GlooWorld
from fleet.errors import CommunicationError, DeadlineError
from fleet.net import Endpoint, Hold
from fleet.roles import Identity, Rendezvous, Role
from support.jobs import LIMIT_S, clean_environ, fleetrun, script

pytestmark = pytest.mark.timeout(300)


@pytest.mark.exhaustive
def test_a_job_that_torchrun_starts_again_meets_again(tmp_path: Path) -> None:
    """In the default group, and in a world beside it: a worker fails once after each has met."""
    train = script(
        tmp_path,
        """
        import os, fleet
        attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        for number, mode in enumerate([{"is_collective": True}, {}]):
            if attempt > number + 1:
                continue
            fleet.init(**mode)
            total = fleet.util.all_reduce(fleet.worker_index() + 1)
            if attempt == number and fleet.worker_index() == 1:
                raise SystemExit(3)
            fleet.barrier_worker()
            open(f"done.{number}.{fleet.worker_index()}", "w").write(f"{attempt} {total}")
            fleet.shutdown()
        """,
    )
    options = ["--standalone", "--nproc_per_node", "2", "--max-restarts", "2", "--monitor-interval", "0.1"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *options, str(train)],
        cwd=tmp_path,
        # torchrun leaves its folders behind
        env={**clean_environ(), "TMPDIR": str(tmp_path), "FLEET_INIT_TIMEOUT_S": "120", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    found = [[(tmp_path / f"done.{number}.{index}").read_text() for index in range(2)] for number in range(2)]
    assert found == [["1 3", "1 3"], ["2 3", "2 3"]]


def test_the_time_to_meet_does_not_limit_what_comes_after(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import signal, fleet
        import torch.distributed.distributed_c10d as c10d
        fleet.init()
        fleet.util.barrier("all")
        worlds = fleet.util._worlds
        assert worlds["all"]._group.options._timeout == c10d.default_pg_timeout, worlds["all"]._group.options._timeout
        assert worlds._store.timeout == c10d.default_pg_timeout, worlds._store.timeout
        if fleet.is_server():
            signal.sigwait({signal.SIGTERM})
        """,
    )
    arguments = ["--server_num", 1, "--worker_num", 1, train]
    result = fleetrun(*arguments, cwd=tmp_path, environ={"FLEET_INIT_TIMEOUT_S": "120"}, warm=True)
    assert result.code == 0, result.err


def pair(timeout_s: float) -> list[GlooWorld | None]:
    """Two members of a world, in one process."""
    store = dist.HashStore()
    members: list[GlooWorld | None] = [None, None]

    def join(rank: int) -> None:
        group = dist.ProcessGroupGloo(store, rank, 2, timedelta(seconds=timeout_s))
        members[rank] = GlooWorld(cast(dist.ProcessGroup, group), "worker")

    threads = [threading.Thread(target=join, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return members


def test_a_wait_that_ran_out_is_told_from_a_member_that_went_away() -> None:
    waiting, _idle = pair(timeout_s=0.5)
    assert waiting is not None
    for _ in range(2):  # the second time Gloo remembers that the first ran out
        with pytest.raises(CommunicationError, match=r"the worker world timed out \(this is rank 0 of 2\)"):
            waiting.barrier()
    members = pair(timeout_s=120)
    left, members[1] = members[0], None
    assert left is not None
    with pytest.raises(CommunicationError, match=r"the worker world lost a member \(this is rank 0 of 2\)"):
        left.barrier()


@pytest.mark.parametrize("is_host", [False, True])
def test_a_name_that_does_not_resolve_is_said_so(is_host: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "no-such-host." * 20 + "invalid"  # too long for a name server, which may take its time to answer
    monkeypatch.setenv("FLEET_INIT_TIMEOUT_S", "0.5")
    with Hold.any_port() as hold, pytest.raises(DeadlineError) as caught:
        meeting = Rendezvous(Endpoint(name, hold.endpoint.port))
        open_store(Identity(Role.WORKER, 0 if is_host else 1, num_workers=2, source="a test", rendezvous=meeting))
    message = str(caught.value)
    assert f"{name} does not resolve here" in message
    assert "set MASTER_ADDR to" in message
    assert len(message.splitlines()) == 1


def test_small_and_short_numbers_travel(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import fleet, torch
        from fleet.errors import UsageError
        fleet.init(is_collective=True)
        index = fleet.worker_index()
        for dtype in (torch.bfloat16, torch.float16, torch.int16, torch.uint8, torch.uint32):
            value = torch.tensor([[1, 2], [3, index]], dtype=dtype).T
            total = fleet.util.all_reduce(value)
            assert total.dtype == dtype and total.tolist() == [[2, 6], [4, 1]], total
            assert value.tolist() == [[1, 3], [2, index]], value
            both = fleet.util.all_gather(value)
            assert [one.dtype for one in both] == [dtype] * 2
            assert [one.tolist() for one in both] == [[[1, 3], [2, 0]], [[1, 3], [2, 1]]], both
        try:
            fleet.util.all_reduce(torch.ones(1, dtype=torch.bfloat16 if index else torch.float16))
        except UsageError as error:
            assert "rank 0: float16 [1] sum; rank 1: bfloat16 [1] sum" in str(error), error
        else:
            raise AssertionError("different types were reduced")
        """,
    )
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
