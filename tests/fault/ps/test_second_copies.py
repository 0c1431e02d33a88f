"""Second copies of servers: filled while training goes on, in their server's place when its machine is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from fleet.errors import DeadlineError, UsageError
from fleet.ps.proto import ps_pb2
from fleet.ps.steps.state import ServerState
from fleet.ps.wire.calls import ServerCall
from fleet.ps.wire.trust.own_token import user_token
from fleet.ps.worker.calling import requests
from fleet.ps.worker.calling.server_set import ServerSet
from support.durable.second_copies import Copied
from support.durable.server_state import everything
from support.jobs import LIMIT_S
from support.parity.training import Trainer, in_threads, joined, rows_of, served, started, strategy, trainer
from support.processes import wait_until
from support.serving.serving import reached

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(autouse=True)
def own_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_DURABLE", str(tmp_path / "worker"))
    monkeypatch.setenv("FLEET_STANDBY", "SYNC")
    monkeypatch.setenv("FLEET_RECOVERY_TIMEOUT_S", "60")


def train(one: Trainer, *steps: int) -> None:
    """Make some steps, whose pushes are acknowledged on return."""
    one.train(*steps)
    one.worker.policy.flush()


def test_a_copy_has_what_its_server_has(tmp_path: Path) -> None:
    with Copied(tmp_path) as job, joined(job.endpoints, strategy=strategy("async")) as one:
        one.train(5)
        copy = job.begin_copy()
        one.train(5, 10)
        job.list_copy(copy)
        train(one, 10, 15)
        job.servers[0].kill()
        copy.kill()
        assert everything(copy.state()) == everything(job.servers[0].state())


def test_the_copy_takes_the_place_of_a_lost_server(tmp_path: Path) -> None:
    with Copied(tmp_path) as job, joined(job.endpoints, strategy=strategy("async")) as one:
        one.train(5)
        copy = job.add_copy()
        train(one, 5, 10)
        job.servers[0].burn()
        job.promote()
        train(one, 10, 15)
        wait_until(lambda: one.stats()[0]["pushes"] == 15, LIMIT_S, "all pushes to have come")
        copy.kill()
        assert copy.state().stats.counts()["pushes"] == 15


def test_the_journal_travels_by_the_data_plane(tmp_path: Path) -> None:
    copied = Copied(tmp_path, standby="ASYNC", FLEET_LOCAL_TRANSPORT="TCP")
    with copied as job, joined(job.endpoints, strategy=strategy("async")) as one:
        copy = job.add_copy()
        train(one, 5)
        assert copy.process is not None
        process = psutil.Process(copy.process.pid)

        def reaches_another_port() -> bool:
            others = [own.raddr for own in process.net_connections("tcp") if own.status == psutil.CONN_ESTABLISHED]
            return any(address.port != job.endpoints[0].port for address in others)

        wait_until(reaches_another_port, LIMIT_S, "the copy to reach the data plane")


def test_a_server_that_comes_back_goes_on_with_its_copy(tmp_path: Path) -> None:
    with Copied(tmp_path) as job, joined(job.endpoints, strategy=strategy("async")) as one:
        copy = job.add_copy()
        one.train(5)
        job.servers[0].kill()
        job.servers[0].start()
        train(one, 5, 10)
        job.servers[0].kill()
        copy.kill()
        assert copy.said is not None
        assert copy.said.is_whole
        assert everything(copy.state()) == everything(job.servers[0].state())


def test_a_server_that_comes_back_knows_that_its_copy_may_be_listed(tmp_path: Path) -> None:
    """Its former life has told the copy that it is whole, and by the note of that fleetrun lists it, however late."""
    with Copied(tmp_path) as job, joined(job.endpoints, strategy=strategy("async")) as one:
        server, copy = job.servers[0], job.begin_copy()
        wait_until(lambda: job.is_whole(copy), LIMIT_S, "a copy to be whole")
        copy.stop()
        server.kill()
        server.start()
        training = started(lambda: train(one, 5))[0]
        wait_until(lambda: server.complaint or training.done(), LIMIT_S, "the server to miss its copy")
        assert not training.done()
        copy.go_on()
        job.list_copy(copy)
        training.result(LIMIT_S)
        server.burn()
        job.promote()
        copy.kill()
        assert copy.state().stats.counts()["pushes"] == 5


def test_a_copy_that_comes_back_goes_on_where_it_was(tmp_path: Path) -> None:
    with Copied(tmp_path) as job, joined(job.endpoints, strategy=strategy("async")) as one:
        copy = job.add_copy()
        one.train(5)
        copy.kill()
        copy.start()
        train(one, 5, 10)
        assert len(list((copy.folder / "durable" / "server-0").glob("journal-*"))) == 1  # it was not filled again
        job.servers[0].kill()
        copy.kill()
        assert everything(copy.state()) == everything(job.servers[0].state())


def test_training_waits_for_a_copy_until_a_term_goes_without(tmp_path: Path) -> None:
    with Copied(tmp_path) as job, joined(job.endpoints, strategy=strategy("async")) as one:
        copy = job.add_copy()
        train(one, 3)
        copy.stop()
        server = job.servers[0]
        training = started(lambda: train(one, 3, 6))[0]
        wait_until(lambda: server.complaint, LIMIT_S, "the server to miss its copy")
        assert server.complaint is not None
        assert server.complaint[:2] == (0, job.number)
        assert not training.done()
        job.drop_copy()
        training.result(LIMIT_S)
        copy.go_on()
        job.list_copy(copy)  # it has caught up
        train(one, 6, 9)
        server.kill()
        copy.kill()
        assert everything(copy.state()) == everything(server.state())


def test_more_pushes_than_threads_wait_for_a_copy_that_is_slow(tmp_path: Path) -> None:
    with Copied(tmp_path) as job, ExitStack() as stack:
        workers = [
            stack.enter_context(joined(job.endpoints, number, 5, strategy=strategy("async"))) for number in range(5)
        ]
        copy = job.add_copy()
        in_threads(*(partial(train, one, 2) for one in workers))
        copy.stop()
        training = started(*(partial(train, one, 2, 4) for one in workers))
        wait_until(lambda: job.servers[0].complaint, LIMIT_S, "the server to miss its copy")
        assert not any(one.done() for one in training)
        copy.go_on()
        for one in training:
            one.result(LIMIT_S)
        job.servers[0].burn()
        job.promote()
        assert workers[0].stats()[0]["pushes"] == 20


def test_a_server_that_is_cut_off_can_acknowledge_nothing(tmp_path: Path) -> None:
    with Copied(tmp_path) as job, joined(job.endpoints, strategy=strategy("async")) as one:
        copy, server = job.add_copy(), job.servers[0]
        train(one, 5)
        job.promote(0, server)  # which does not hear of it
        train(one, 5, 10)
        with reached(server.endpoint, user_token()) as stale:  # a worker that has not heard of it either
            caller = ps_pb2.Caller(term=job.number - 1, incarnation=1)
            header = ps_pb2.KeepRequest.Header(caller=caller, sequence=99)
            with pytest.raises(DeadlineError):
                stale.call("Keep", header, (), 1.0).result()
        wait_until(lambda: server.complaint, LIMIT_S, "the server to say that it waits for its copy")
        server.terms.use(job.term())
        assert server.process is not None
        assert server.process.wait(LIMIT_S) == 0
        server.kill()
        copy.kill()
        assert copy.state().stats.counts()["pushes"] == 10


def test_a_copy_that_is_cut_off_is_filled_again_after_a_load(tmp_path: Path) -> None:
    with Copied(tmp_path) as job, joined(job.endpoints, strategy=strategy("async")) as one:
        copy = job.add_copy()
        one.train(3)
        one.fleet.save_persistables(dirname=tmp_path / "saved")
        one.train(3, 6)
        loading = started(lambda: one.fleet.load_model(tmp_path / "saved"))[0]
        wait_until(lambda: job.servers[0].complaint, LIMIT_S, "the server to say that its copy is filled anew")
        assert not loading.done()
        job.drop_copy()
        loading.result(LIMIT_S)
        one.train(6, 9)
        job.list_copy(copy)
        train(one, 9, 12)
        job.servers[0].kill()
        copy.kill()
        assert everything(copy.state()) == everything(job.servers[0].state())


def in_sync(job: Copied, worker: int, **given: Any) -> AbstractContextManager[Trainer]:
    return joined(job.endpoints, worker, 2, strategy=strategy("sync"), **given)


def undisturbed(num_steps: int) -> dict[int, Any]:
    """The rows after some steps of two workers on two servers, of whom nobody dies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("FLEET_STANDBY")
        patch.delenv("FLEET_DURABLE")
        with served(2) as (endpoints, services):

            def run(worker: int) -> None:
                with joined(endpoints, worker, 2, strategy=strategy("sync")) as one:
                    one.train(num_steps)
                    one.fleet.stop_worker()

            in_threads(lambda: run(0), lambda: run(1))
            return rows_of(services)


def rows_on(states: Sequence[ServerState]) -> dict[int, Any]:
    """The rows that servers have on their disks."""
    rows = {}
    for state in states:
        table = state.held.tables[0]
        found = table.export(0, table.num_shards)
        for key, values, more in zip(found["keys"], found["values"], found["state"], strict=True):
            rows[int(key)] = (values.tobytes(), more.tobytes())
    return rows


def test_a_synchronous_job_that_loses_a_server_ends_with_the_same_bits(tmp_path: Path) -> None:
    wanted = undisturbed(12)
    with Copied(tmp_path, 2) as job, in_sync(job, 0) as first, in_sync(job, 1) as second:
        copies = [job.add_copy(server) for server in range(2)]
        training = started(lambda: first.train(12), lambda: second.train(12))
        wait_until(lambda: first.worker.policy.version >= 4, LIMIT_S, "four steps")
        job.servers[1].burn()
        job.promote(1)
        for one in training:
            one.result(LIMIT_S)
        job.servers[0].kill()
        copies[1].kill()
        assert rows_on([job.servers[0].state(), copies[1].state()]) == wanted


@pytest.mark.parametrize("num_sent", [0, 1, 2])
def test_a_worker_that_is_lost_while_it_sends_leaves_no_step_half_made(
    tmp_path: Path, num_sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine is lost, and with it what it had written down: its next life makes the step again, if it must."""
    wanted = undisturbed(8)
    with Copied(tmp_path, 2) as job, in_sync(job, 0) as first:
        copies = [job.add_copy(server) for server in range(2)]
        training = started(lambda: first.train(8))[0]
        dying = trainer(job.endpoints, 1, 2, strategy=strategy("sync"))
        dying.fleet.init_worker()
        dying.train(3)
        with monkeypatch.context() as patch:
            patch.setattr(requests, "calls_to", lost_after(num_sent))
            with pytest.raises(KeyboardInterrupt):
                dying.train(3, 4)
        dying.worker.client.close()
        shutil.rmtree(tmp_path / "worker" / "worker-1")
        job.decide()
        with in_sync(job, 1) as second:
            done = second.fleet.steps_done()  # the last step that the servers know is made again, and not sent
            assert done == (3 if num_sent == 2 else 2)
            second.train(done, 8)
            training.result(LIMIT_S)
        for server in (*job.servers, *copies):
            server.kill()
        assert rows_on([one.state() for one in job.servers]) == wanted
        assert rows_on([one.state() for one in copies]) == wanted


def test_what_has_no_exact_meaning_beside_copies_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Copied(tmp_path) as job:
        with (
            pytest.raises(UsageError, match="has the pushes of all"),
            joined(job.endpoints, strategy=strategy("sync", wait_for_workers_s=5.0)),
        ):
            pass
        with joined(job.endpoints, strategy=strategy("async")) as one:
            monkeypatch.setenv("FLEET_JOB_ID", "copies")
            with pytest.raises(UsageError, match="without --standby"):
                one.fleet.reshard(servers=2)
            monkeypatch.delenv("FLEET_JOB_ID")
        monkeypatch.setenv("FLEET_STANDBY", "ASYNC")
        with (
            pytest.raises(UsageError, match="start it with --standby sync"),
            joined(job.endpoints, strategy=strategy("sync")),
        ):
            pass


def lost_after(num_sent: int) -> Callable[..., list[ServerCall]]:
    """Makes the calls of a worker that is lost when so many servers have got its push."""

    def calls_to(server_set: ServerSet, method: str, messages: Any, timeout_s: float, servers: Any, **more: Any) -> Any:
        if method != "Push" or messages[0][0].caller.worker != 1:
            return real(server_set, method, messages, timeout_s, servers, **more)
        calls = list(real(server_set, method, messages, timeout_s, list(servers)[:num_sent], **more))
        for call in calls:
            call.result()
        raise KeyboardInterrupt

    real = requests.calls_to
    return calls_to
