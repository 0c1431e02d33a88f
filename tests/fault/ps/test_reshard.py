"""The number of servers changes while a durable job trains, also where somebody is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fleet import checkpoint
from fleet.jobfiles.layouts import Layouts
from fleet.ps.durable import storage
from fleet.ps.held.holdings import Holdings
from fleet.ps.job.spec import JobSpec
from support.durable import reshard_job
from support.jobs import LIMIT_S, RunningJob, fleetrun
from support.processes import wait_until

pytestmark = pytest.mark.timeout(400)

PROGRAM = Path(reshard_job.__file__)


def command(num_servers: int, *arguments: object) -> list[object]:
    return ["--server_num", num_servers, "--worker_num", 2, "--durable", "kept", PROGRAM, *arguments]


def loaded(folder: Path) -> tuple[Holdings, int]:
    """What a checkpoint has, all of it in one place, and how many rows its servers had together."""
    manifest = checkpoint.read_manifest(checkpoint.find(folder))
    job = JobSpec.from_json(json.dumps(manifest.job))
    dense = replace(job.dense, blocks=tuple(replace(block, server=0) for block in job.dense.blocks))
    kept = tuple(replace(tensor, server=0) for tensor in job.kept)
    holdings = Holdings(replace(job, num_servers=1, dense=dense, kept=kept), 0)
    storage.load(holdings, folder)
    return holdings, manifest.num_servers


def rows_of(table: Any) -> dict[str, Any]:
    """Everything, in the order of the keys."""
    found = table.export(0, table.num_shards)
    orders = {prefix: np.argsort(found[f"{prefix}keys"]) for prefix in ("", "waiting_")}
    return {name: array[orders["waiting_" if name.startswith("waiting_") else ""]] for name, array in found.items()}


def assert_counted(folder: Path, num_steps: int, *num_servers: int) -> None:
    """Every sample has counted once, and has one row; there were so many servers in the end."""
    holdings, servers = loaded(folder / "saved")
    assert servers in num_servers
    rows = rows_of(holdings.tables[0])
    assert rows["keys"].tolist() == list(range(8 * num_steps))
    assert (rows["values"] == 1.0).all()
    stats = eval((folder / "stats").read_text())
    assert sum(one["tables"]["embedding"]["rows"] for one in stats) == 8 * num_steps  # none on two servers
    assert {one["pushes"] for one in stats} == {2 * num_steps}
    assert {one["version"] for one in stats} == {2 * num_steps}


@pytest.mark.parametrize("mode", ["sync", pytest.param("clipped", marks=pytest.mark.exhaustive)])
def test_a_synchronous_run_is_the_same_to_the_last_bit(mode: str, tmp_path: Path) -> None:
    """Two servers, then three, then two: everything is as if there had been two all the time."""
    folders = [tmp_path / name for name in ("plain", "changed")]
    for folder in folders:
        folder.mkdir()
    with (
        RunningJob(command(2, mode, 100), folders[0], warm=True) as plain,
        RunningJob(command(2, mode, 100, "20:3", "60:2"), folders[1], warm=True) as changed,
    ):
        for job in (plain, changed):
            result = job.finish()
            assert result.code == 0, result.err
    assert result.err.count("from now on") == 2, result.err
    one, other = (torch.load(folder / "state.pt") for folder in folders)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    held, moved = (loaded(folder / "saved")[0] for folder in folders)
    for before, after in zip(held.tables, moved.tables, strict=True):
        ours, theirs = rows_of(before), rows_of(after)
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    for dense in zip(held.snapshot(), moved.snapshot(), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(*dense, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(held.kept, moved.kept, strict=True))


@pytest.mark.exhaustive
def test_an_asynchronous_job_grows_and_shrinks_and_counts_each_push_once(tmp_path: Path) -> None:
    with RunningJob(command(2, "async", 400, "30:3", "--paced"), tmp_path, warm=True) as job:
        layouts = Layouts(tmp_path / "kept")
        wait_until(lambda: layouts.later(0) is not None, LIMIT_S, "three servers")
        outside = fleetrun("reshard", 1, "--durable", "kept", cwd=tmp_path)
        assert (outside.code, outside.err.splitlines()[-1]) == (0, "fleetrun: servers: 1 instead of 3"), outside
        again = fleetrun("reshard", 1, "--durable", "kept", cwd=tmp_path)
        assert (again.code, again.err.strip()) == (2, "fleetrun: the job in kept has 1 servers already")
        (tmp_path / "go").touch()
        result = job.finish()
    assert result.code == 0, result.err
    assert_counted(tmp_path, 400, 1)
    assert not (tmp_path / "kept/layout").exists()


def pid_of(job: RunningJob, name: str) -> int:
    return int(job.read(f"{name}.pid"))


def interrupt(job: RunningJob, number: int, victim: str) -> None:
    """Keep a move from going on, by a new server that does nothing, kill somebody, and see that it is given up."""
    layouts = Layouts(job.cwd / "kept")
    os.kill(pid_of(job, f"server-{number}-0"), signal.SIGSTOP)
    os.kill(pid_of(job, victim), signal.SIGKILL)
    wait_until(lambda: layouts.decided(number) is not None, LIMIT_S, f"the end of move {number}")
    decided = layouts.decided(number)
    assert decided is not None
    assert not decided.endpoints


@pytest.mark.exhaustive
def test_the_death_of_a_server_in_the_middle_begins_it_again(tmp_path: Path) -> None:
    with RunningJob(command(2, "async", 300, "30:3", "--paced"), tmp_path, warm=True) as job:
        interrupt(job, 1, "server-0-1")
        interrupt(job, 2, "server-2-1")
        wait_until(lambda: Layouts(tmp_path / "kept").later(2) is not None, LIMIT_S, "the third move")
        (tmp_path / "go").touch()
        result = job.finish()
    assert result.code == 0, result.err
    assert_counted(tmp_path, 300, 3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("who", ["server-0-1", "worker-0"])
def test_a_death_while_pushes_are_held_loses_nothing(tmp_path: Path, who: str) -> None:
    """Which servers hold then depends on the moment; that all agree on it does not."""
    with RunningJob(command(2, "async", 300, "30:3", "--paced"), tmp_path, warm=True) as job:
        pid_of(job, "server-1-2")
        victim, deadline = pid_of(job, who), time.monotonic() + LIMIT_S
        while not any((tmp_path / "kept/layout").glob("moving-1/rest-*")):
            assert time.monotonic() < deadline
        os.kill(victim, signal.SIGKILL)
        layouts = Layouts(tmp_path / "kept")
        wait_until(lambda: layouts.decided(1) is not None, LIMIT_S, "a decision")
        (tmp_path / "go").touch()
        result = job.finish()
    assert result.code == 0, result.err
    assert_counted(tmp_path, 300, 2, 3)


@pytest.mark.exhaustive
def test_the_same_command_goes_on_with_as_many_servers_as_there_were(tmp_path: Path) -> None:
    with RunningJob(command(2, "async", 300, "30:3", "--paced"), tmp_path, warm=True) as job:
        layouts = Layouts(tmp_path / "kept")
        wait_until(lambda: layouts.later(0) is not None, LIMIT_S, "three servers")
        job.send(signal.SIGKILL)
        job.finish()
    (tmp_path / "go").touch()
    result = fleetrun(*command(2, "async", 300, "30:3", "--paced"), cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    assert "starting 3 servers and 2 workers" in result.err
    assert_counted(tmp_path, 300, 3)


def test_what_cannot_work_is_refused_in_one_line(tmp_path: Path) -> None:
    refused = {
        ("reshard", "0", "--durable", "kept"): "fleetrun reshard: N must be a whole number >= 1, got 0",
        ("reshard", "2"): "fleetrun reshard needs the folder of the job: fleetrun reshard N --durable DIR",
        ("reshard", "2", "--durable", "kept"): "--durable kept: there is no such folder",
        ("reshard", "2", "--durable", "."): "--durable .: no job with servers runs there on this machine",
    }
    for arguments, line in refused.items():
        result = fleetrun(*arguments, cwd=tmp_path)
        assert (result.code, result.err.strip()) == (2, f"fleetrun: {line}")
