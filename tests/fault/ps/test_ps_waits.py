"""Waits of workers in jobs with servers: bounded however often the connection drops, and never for one that has gone.

Workers are `Fleet` objects in threads of this process, or real jobs of fleetrun.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from fleet.errors import CommunicationError, DeadlineError
from fleet.net import Endpoint
from fleet.observe.waits.waiting import Awaited
from fleet.ps.proto import ps_pb2
from fleet.ps.server import grpc_server
from fleet.ps.together.worker_meetings import WorkerMeetings
from fleet.ps.wire import grpc_client
from fleet.ps.wire.calls import ServerCall, Voice
from fleet.ps.wire.keepalive import client_options, server_options
from fleet.ps.worker.calling.client import Client
from support.jobs import fleetrun, script
from support.parity.training import Trainer, in_threads, joined, served, strategy
from support.plane import plane, plane_worker
from support.plane.proxy import cutting
from support.plane.toy_service import ToyService
from support.serving.serving import reached, serving

pytestmark = pytest.mark.timeout(300)

UNSTOPPED = "worker 1 ended without fleet.stop_worker(); call it at the end of the script"


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "60")
    monkeypatch.setenv("FLEET_STEP_TIMEOUT_S", "120")
    monkeypatch.delenv("FLEET_NOTE_FILE", raising=False)


@pytest.fixture
def toy() -> Iterator[ToyService]:
    made = ToyService()
    yield made
    made.close()


def test_a_connection_that_drops_again_and_again_does_not_make_a_call_longer(toy: ToyService) -> None:
    """Each connection lasts longer than the patience with the server, which then begins anew."""
    is_open, is_over = threading.Event(), threading.Event()
    with (
        serving(toy) as server,
        cutting(server.endpoint, is_open.set) as proxy,
        reached(proxy.endpoint) as transport,
    ):

        def cut() -> None:
            while is_open.wait() and not is_over.wait(1.2):
                is_open.clear()
                proxy.cut_all()

        cutter = threading.Thread(target=cut)
        cutter.start()
        started = time.monotonic()
        try:
            header = ps_pb2.PullRequest.Header(version=1, timeout_ms=10_000)
            voice = Voice("worker 0", lambda: Awaited("nobody"))
            with pytest.raises(DeadlineError, match=r"no answer to Pull within .* the connection was lost .* in \d s$"):
                ServerCall(transport, "Pull", header, (), timeout_s=3.0, patience_s=1.0, voice=voice).result()
        finally:
            is_over.set()
            is_open.set()
            cutter.join()
            toy.close()
        assert 3.0 <= time.monotonic() - started < 10.0


@pytest.mark.exhaustive
def test_a_worker_that_pings_while_it_waits_is_no_attack(
    toy: ToyService, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Once a second, at which a server with gRPC's own settings hangs up after four: `too_many_pings`."""
    for module, options in ((grpc_client, client_options(0.3)), (grpc_server, server_options(0.3))):
        monkeypatch.setattr(module, "OPTIONS", tuple({**dict(module.OPTIONS), **dict(options)}.items()))
    with serving(toy) as server, reached(server.endpoint) as transport:
        header = ps_pb2.PullRequest.Header(version=1, timeout_ms=8000)
        with pytest.raises(DeadlineError, match="waited 8000 ms for version 1"):
            transport.call("Pull", header, (), 60).result()
    assert "too_many_pings" not in capfd.readouterr().err


def test_who_meets_or_leaves_says_that_the_server_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FLEET_WAIT_NOTICE_S", "0.2")
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "1.5")
    with plane.served("GRPC") as one:
        assert one.grpc is not None
        client = Client([one.transport()], 0, plane_worker.job("async", 2))
        client.declare()
        one.grpc.stop(0.0)
        with pytest.raises(CommunicationError, match=r"cannot be reached for Meet .* tried for 1.5 s"):
            WorkerMeetings(client, "test", 60.0).meet("topic", "", "a test")
        client.changes.leave()
    for method in ("Meet", "Leave"):
        told = f"worker 0 waits for server {one.grpc.address}, which cannot be reached ({method})"
        assert any(told in line for line in caplog.messages), method


def test_a_worker_that_ends_without_leaving_ends_the_wait_for_it(caplog: pytest.LogCaptureFixture) -> None:
    is_there = threading.Barrier(2)

    def stays(one: Trainer) -> None:
        one.train(2)
        is_there.wait(60)
        with pytest.raises(CommunicationError, match=f"server .*: {UNSTOPPED.replace('(', '.').replace(')', '.')}$"):
            one.train(2, 4)

    def goes(one: Trainer) -> None:
        one.train(2)
        is_there.wait(60)
        one.fleet._end()

    with served(2) as (endpoints, services):
        started = time.monotonic()
        in_threads(partial(_with, stays, endpoints, 0), partial(_with, goes, endpoints, 1))
        assert time.monotonic() - started < 60
        assert not any(service.finished.is_set() for service in services)
    assert caplog.messages.count(UNSTOPPED) == 1


def _with(work: Callable[[Trainer], None], endpoints: Sequence[Endpoint], index: int) -> None:
    with joined(endpoints, index, 2) as one:
        work(one)


def test_workers_who_all_forget_it_end_well_and_so_do_their_servers(caplog: pytest.LogCaptureFixture) -> None:
    def forgets(one: Trainer) -> None:
        one.train(3)
        one.fleet._end()

    with served(2) as (endpoints, services):
        in_threads(*(partial(_with, forgets, endpoints, index) for index in range(2)))
        assert all(service.finished.is_set() for service in services)
    assert sum("ended without fleet.stop_worker()" in line for line in caplog.messages) == 2  # each in its own log


@pytest.mark.parametrize("mode", ["async", "half", "geo"])
def test_what_is_queued_is_sent_when_the_script_ends(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    with served(1) as (endpoints, services):
        with joined(endpoints, strategy=strategy(mode, max_merge_var_num=20, send_wait_times=1000)) as one:
            one.train(5)
            one.fleet._end()
        assert services[0].finished.is_set()
        assert services[0].state.rounds.version > 0
    assert "were not sent" not in caplog.text
    assert "worker 0 ended without fleet.stop_worker()" in caplog.text


def test_a_worker_that_comes_again_after_it_had_gone_is_waited_for() -> None:
    with served(1) as (endpoints, _), joined(endpoints, 0, 2) as first:
        with joined(endpoints, 1, 2) as second:
            in_threads(partial(first.train, 2), partial(second.train, 2))
            second.fleet._end()
        with joined(endpoints, 1, 2) as again:
            in_threads(partial(first.train, 2, 4), partial(again.train, 2, 4))


FORGETFUL = """
    import os, sys
    import torch
    from torch import nn
    import fleet

    fleet.init()
    if fleet.is_server():
        sys.exit(fleet.run_server())
    model = fleet.distributed_model(nn.Sequential(fleet.nn.Embedding(4, "ads"), nn.Linear(4, 1)))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    fleet.init_worker()
    me = fleet.worker_index()
    for step in range({steps}):
        optimizer.zero_grad()
        model(torch.arange(4)).sum().backward()
        optimizer.step()
    {end}
"""


@pytest.mark.parametrize("how", ["pass", "fleet.shutdown()", "me == 0 or os._exit(0)"])
def test_a_job_with_a_worker_that_forgets_to_stop_ends_at_once_with_its_name(tmp_path: Path, how: str) -> None:
    train = script(tmp_path, FORGETFUL.format(steps="5 if me == 0 else 3", end=how))
    environ = {"FLEET_WAIT_NOTICE_S": "1"}  # only a worker that could say nothing is noticed by the wait for it
    result = fleetrun("--server_num", 1, "--worker_num", 2, train, cwd=tmp_path, environ=environ, warm=True)
    assert result.code == 1, result.err
    assert UNSTOPPED in result.err.replace("\n", " ")
    assert result.seconds < 60


def test_a_job_whose_workers_all_forget_to_stop_ends_well_with_one_warning(tmp_path: Path) -> None:
    train = script(tmp_path, FORGETFUL.format(steps="3", end="print('trained')"))
    result = fleetrun("--server_num", 2, "--worker_num", 2, train, cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    text = "workers 0 and 1 ended without fleet.stop_worker(); call it at the end of the script"
    assert (result.out + result.err).count("stop_worker") == 1
    assert text in result.err
    assert result.out.endswith("trained\n")
    assert not list((tmp_path / "log").glob("*.note*"))
