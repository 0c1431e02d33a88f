"""Another number of servers, call by call: what moves when, who waits, and which layout holds in the end."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fleet._native import server_of
from fleet.errors import MovedError, UsageError
from fleet.jobfiles.layouts import Layouts
from fleet.ps.durable import arriving, moving
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.dense_spec import DenseSpec
from fleet.ps.job.named_spec import RuleSpec
from fleet.ps.job.placement import place
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.journal.records import Kind
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.together.resharding import check_reshard
from fleet.ps.wire.taken_pushes import TakenPushes
from fleet.ps.wire.transport import LocalTransport
from fleet.ps.worker.asking.keys import route
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.calling.server_set import Recut, ServerSet
from support.durable.server_state import everything, kinds_of
from support.parity.training import exported, started

pytestmark = pytest.mark.timeout(120)

SHAPES = [("wide", (300, 64), 0), ("bias", (300,), 0), ("last", (1, 300), 1)]
ROWS = TableSpec("rows", 2, rules.SGD(lr=1.0), initializers.Constant(0.0), entries.AlwaysEntry())
CAPPED = TableSpec("capped", 2, rules.SGD(lr=1.0), initializers.Constant(0.0), entries.AlwaysEntry(), max_bytes=1 << 20)
Phase = ps_pb2.ReshardRequest.Phase


def dense_of(num_servers: int) -> DenseSpec:
    groups = (RuleSpec("adam", (("lr", 0.1),)), RuleSpec("sgd", (("lr", 0.1),)))
    return DenseSpec(groups, tuple((name, shape) for name, shape, _ in SHAPES), place(SHAPES, num_servers))


def job_of(num_servers: int, mode: str = "async") -> JobSpec:
    return JobSpec(1, num_servers, mode, tables=(ROWS, CAPPED), dense=dense_of(num_servers))


@pytest.fixture
def layouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layouts:
    monkeypatch.setenv("FLEET_DURABLE", str(tmp_path))
    return Layouts(tmp_path)


@pytest.fixture
def old(layouts: Layouts) -> Iterator[Service]:
    """The only server of a job of one worker, which has pushed some rows."""
    service = Service(journal=(layouts.durable / "server-0", "OS"))
    header = ps_pb2.DeclareRequest.Header(caller=caller(), job=job_of(1).to_json(), life=5)
    service.handle("Declare", header, ())
    values = [np.arange(job_of(1).dense.size(0, group), dtype=np.float32) for group in range(2)]
    service.handle("Start", ps_pb2.StartRequest.Header(caller=caller()), values)
    push(service, 1, range(100))
    yield service
    service.close()


def caller() -> ps_pb2.Caller:
    return ps_pb2.Caller(worker=0, incarnation=1)


def push(service: Service, sequence: int, keys: Any) -> Any:
    tables = [ps_pb2.PushRequest.Table(table=table, lr=1.0) for table in range(2)]
    header = ps_pb2.PushRequest.Header(caller=caller(), sequence=sequence, steps=sequence, tables=tables)
    one = [np.array(list(keys)), -np.ones((len(keys), 2), np.float32)]
    return service.handle("Push", header, [*one, *one])[0]


def assign(service: Service, sequence: int, keys: list[int], value: float) -> None:
    header = ps_pb2.AssignRequest.Header(caller=caller(), sequence=sequence, table=0)
    service.handle("Assign", header, [np.array(keys), np.full((len(keys), 2), value, np.float32)])


def take(service: Service, number: int, **more: Any) -> list[int]:
    header = ps_pb2.TakeRequest.Header(caller=caller(), queue="files", number=number, **more)
    reply: Any = service.handle("Take", header, ())[0]
    return list(reply.pieces)


def ask(service: Service, phase: Phase, **more: Any) -> Any:
    header = ps_pb2.ReshardRequest.Header(caller=caller(), layout=1, phase=phase, timeout_ms=20_000, **more)
    reply: Any = service.handle("Reshard", header, ())[0]
    assert not reply.lost, reply.lost
    return reply


def frozen(service: Service) -> None:
    """Bring a server to where only the decision is missing."""
    taken = ask(service, Phase.HOLD).taken
    assert ask(service, Phase.TAKE, taken=taken).is_done


def new_servers(layouts: Layouts, monkeypatch: pytest.MonkeyPatch, number: int = 2) -> list[Service]:
    with monkeypatch.context() as patch:
        patch.setenv("FLEET_LAYOUT", "1")
        return [Service(journal=(layouts.durable / f"server-{index}-1", "OS")) for index in range(number)]


def fill(new: list[Service]) -> None:
    for index, service in enumerate(new):
        job = job_of(len(new)).to_json()
        assert ask(service, Phase.FILL, job=job, server_index=index, num_sources=1).is_done


def counts(services: list[Service], table: int = 0) -> dict[int, float]:
    """How often each key was pushed; each is on one server."""
    found: dict[int, float] = {}
    for service in services:
        rows = exported(service, table)
        for key, value in zip(rows["keys"].tolist(), rows["values"][:, 0].tolist(), strict=True):
            assert key not in found
            found[key] = value
    return found


def test_everything_moves_and_what_changed_meanwhile_moves_last(
    layouts: Layouts, old: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert layouts.ask(2) == 1
    assert [take(old, number, total=3) for number in (0, 1)] == [[], [0]]
    new = new_servers(layouts, monkeypatch)
    assert ask(old, Phase.COPY).rows == 100
    assert take(old, 2) == [1]
    push(old, 2, range(50, 150))  # training goes on
    fill(new)
    assert counts(new) == dict.fromkeys(range(100), 1.0)
    push(old, 3, [7])
    frozen(old)
    (held,) = started(lambda: push(old, 4, [8]))
    for service in new:
        assert ask(service, Phase.ADOPT, num_sources=1).is_done
    assert not held.done()
    layouts.decide(1, ["a", "b"])
    ask(old, Phase.END)
    with pytest.raises(MovedError):
        held.result(20)
    with pytest.raises(MovedError):
        old.handle("Pull", ps_pb2.PullRequest.Header(caller=caller(), tables=[0]), [np.array([1])])
    wanted = dict.fromkeys(range(150), 1.0) | dict.fromkeys(range(50, 100), 2.0) | {7: 2.0}
    for table in range(2):
        assert counts(new, table) == wanted
    with pytest.raises(MovedError):
        take(old, 2)
    assert [take(new[0], number) for number in (2, 3, 4)] == [[1], [2], []]  # also the one whose answer may be lost
    # What a new server knows, it knows also if it dies now.
    for index, service in enumerate(new):
        assert service.state.ledger.taken(0) == TakenPushes(1, 3, frozenset())
        assert service.state.run == old.state.run
        copy = shutil.copytree(layouts.durable / f"server-{index}-1", layouts.durable / f"copy-{index}")
        (copy / "lock").unlink()
        with monkeypatch.context() as patch:
            patch.setenv("FLEET_LAYOUT", "1")
            recovered = Service(journal=(copy, "OS"))
        assert recovered.state.to_json() == service.state.to_json()
        assert counts([recovered]) == counts([service])
        both = zip(recovered.state.held.snapshot(), service.state.held.snapshot(), strict=True)
        assert all(np.array_equal(a, b) for pair in both for a, b in zip(*pair, strict=True))
        assert push(service, 3, [8]).was_repeated
        assert not push(service, 4, [8] if index == 0 else []).was_repeated
        recovered.close()
        service.close()


@pytest.mark.parametrize("is_large", [False, True], ids=["ADOPT", "LOAD"])
def test_what_a_new_server_takes_over_is_recorded(
    layouts: Layouts, old: Service, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    """What is large is kept as a snapshot, as a checkpoint is that was loaded."""
    layouts.ask(2)
    new = new_servers(layouts, monkeypatch)
    assert ask(old, Phase.COPY).is_done
    fill(new)
    frozen(old)
    folders = [layouts.durable / f"server-{index}-1" for index in range(2)]
    assert [kinds_of(folder, 0) for folder in folders] == [{Kind.LOAD}] * 2
    lsns = [service.core.durability.counts()["record"] for service in new]  # type: ignore[union-attr]
    monkeypatch.setattr(arriving, "SNAPSHOT_BYTES", 0 if is_large else 1 << 30)
    for service in new:
        for _ in range(2):
            assert ask(service, Phase.ADOPT, num_sources=1).is_done
    kind = Kind.LOAD if is_large else Kind.ADOPT
    assert [kinds_of(folder, lsn) for folder, lsn in zip(folders, lsns, strict=True)] == [{kind}] * 2
    before = [everything(service) for service in new]
    for service in new:
        service.close()
    again = new_servers(layouts, monkeypatch)
    assert [everything(service) for service in again] == before
    layouts.decide(1, abandoned="for a test")
    for service in again:
        service.close()


def test_rows_that_are_written_by_value_meanwhile_move_too(
    layouts: Layouts, old: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    layouts.ask(2)
    new = new_servers(layouts, monkeypatch)
    assert ask(old, Phase.COPY).is_done
    assign(old, 2, [5, 200], 9.0)
    fill(new)
    frozen(old)
    (held,) = started(lambda: assign(old, 3, [6], 9.0))
    for service in new:
        assert ask(service, Phase.ADOPT, num_sources=1).is_done
    assert not held.done()
    layouts.decide(1, ["a", "b"])
    ask(old, Phase.END)
    with pytest.raises(MovedError):
        held.result(20)
    wanted = dict.fromkeys(range(100), 1.0) | {5: 9.0, 200: 9.0}
    for service in new:
        assign(service, 2, [], 7.0)  # was taken
        assert service.state.ledger.taken(0) == TakenPushes(1, 2, frozenset())
    assert counts(new) == wanted
    for service in new:
        service.close()


def test_a_move_that_is_given_up_leaves_everything_as_it_was(layouts: Layouts, old: Service) -> None:
    layouts.ask(2)
    assert ask(old, Phase.COPY).is_done
    frozen(old)
    (held,) = started(lambda: push(old, 2, [7]))
    assert layouts.decide(1, abandoned="for a test").abandoned
    ask(old, Phase.END)
    assert held.result(20).version == 2
    assert counts([old])[7] == 2
    assert layouts.later(0) is None


def test_who_decides_first_decides(layouts: Layouts) -> None:
    assert layouts.ask(2) == 1
    assert layouts.ask(3) is None  # one at a time
    assert layouts.decide(1, abandoned="it took too long").abandoned == "it took too long"
    assert layouts.decide(1, ["a", "b"]).endpoints == ()
    assert (layouts.ask(3), layouts.decide(2, ["a"]).endpoints) == (2, ("a",))
    assert layouts.decide(2, abandoned="too late").endpoints == ("a",)
    assert (layouts.present(), layouts.later(2)) == (layouts.decided(2), None)


def test_a_server_that_is_started_again_gives_up_what_is_not_decided(layouts: Layouts, old: Service) -> None:
    layouts.ask(2)
    assert ask(old, Phase.COPY).is_done
    frozen(old)
    died = shutil.copytree(layouts.durable / "server-0", layouts.durable / "died")
    (died / "lock").unlink()
    again = Service(journal=(died, "OS"))
    assert push(again, 2, [7]).version == 2  # it lets in what the others hold up, so it must not be moved
    assert layouts.decide(1, ["a", "b"]).abandoned == "a server was started again meanwhile"
    again.close()


def test_a_server_of_the_past_says_so_when_it_is_started_again(layouts: Layouts, old: Service) -> None:
    layouts.ask(2)
    layouts.decide(1, ["a", "b"])
    died = shutil.copytree(layouts.durable / "server-0", layouts.durable / "died")
    (died / "lock").unlink()
    again = Service(journal=(died, "OS"))
    with pytest.raises(MovedError):
        push(again, 2, [7])
    again.close()
    assert not list(died.glob("journal-*"))


def test_who_makes_a_change_is_not_in_the_way_of_a_move_that_looks_for_it(old: Service) -> None:
    """Both wait for a lock that the other has: the server answered nobody any more."""
    core, began = old.core, threading.Event()

    def make() -> bool:
        with core.state.ledger.once(0, 1, 2):
            began.set()
            looking.join(0.5)
            is_free = core.changed.acquire(timeout=5)
            if is_free:
                core.changed.release()
            return is_free

    looking = threading.Thread(target=lambda: began.wait(20) and old._moving._applied())
    looking.start()
    try:
        assert make()
    finally:
        looking.join()


def test_a_silent_worker_does_not_hold_up_the_others(
    layouts: Layouts, old: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "SILENCE_S", 0.5)
    layouts.ask(2)
    assert ask(old, Phase.COPY).is_done
    frozen(old)
    assert push(old, 2, [7]).version == 2
    decided = layouts.decided(1)
    assert decided is not None
    assert decided.abandoned == "worker 0 has said nothing for 0.5 s"


def test_rows_that_were_deleted_meanwhile_do_not_come_back(
    layouts: Layouts, old: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    layouts.ask(2)
    new = new_servers(layouts, monkeypatch)
    assert ask(old, Phase.COPY).is_done
    fill(new)
    old.state.clock.set(50)
    push(old, 2, [7])
    old.handle("Shrink", ps_pb2.ShrinkRequest.Header(caller=caller(), unseen_steps=10, sequence=100), ())
    assert counts([old]) == {7: 2.0}
    frozen(old)
    for service in new:
        assert ask(service, Phase.ADOPT, num_sources=1).is_done
    assert counts(new) == {7: 2.0}
    layouts.decide(1, abandoned="for a test")
    for service in new:
        service.close()


def test_rows_of_a_server_stay_that_had_deleted_some_before_it_was_copied(
    layouts: Layouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other deletes rows after its copy was made: then all that had come before was thrown away."""
    old = [Service(journal=(layouts.durable / f"server-{index}", "OS")) for index in range(2)]
    for index, service in enumerate(old):
        header = ps_pb2.DeclareRequest.Header(caller=caller(), job=job_of(2).to_json(), life=5, server_index=index)
        service.handle("Declare", header, ())
        sizes = [job_of(2).dense.size(index, group) for group in range(2)]
        values = [np.zeros(size, np.float32) for size in sizes]
        service.handle("Start", ps_pb2.StartRequest.Header(caller=caller()), values)
        for sequence, keys in ((1, range(100)), (2, range(50))):
            own = [key for key in keys if server_of(np.array([key]), 2)[0] == index]
            push(service, sequence, own)

    def shrink(service: Service) -> None:
        service.handle("Shrink", ps_pb2.ShrinkRequest.Header(caller=caller(), unseen_steps=1000, sequence=3), ())

    layouts.ask(1)
    (new,) = new_servers(layouts, monkeypatch, 1)
    assert ask(old[0], Phase.COPY).is_done
    shrink(old[0])
    shrink(old[1])
    assert ask(old[1], Phase.COPY).is_done
    wanted = dict.fromkeys(range(100), 1.0) | dict.fromkeys(range(50), 2.0)
    assert ask(new, Phase.FILL, job=job_of(1).to_json(), server_index=0, num_sources=2).is_done
    for service in old:
        frozen(service)
    assert ask(new, Phase.ADOPT, num_sources=2).is_done
    assert counts([new]) == counts([new], 1) == wanted
    layouts.decide(1, abandoned="for a test")
    for service in (new, *old):
        service.close()


@pytest.mark.parametrize(("source", "target"), [(1, 3), (3, 2), (2, 5)])
def test_dense_buffers_are_cut_anew_and_put_together_again(source: int, target: int) -> None:
    here, there = dense_of(source), dense_of(target)
    begin = [[np.random.rand(here.size(one, group)).astype(np.float32) for group in (0, 1)] for one in range(source)]
    sent = Recut(here, there, target).buffers(begin, [0, 1])
    assert [[len(array) for array in own] for own in sent] == [
        [there.size(one, group) for group in (0, 1)] for one in range(target)
    ]
    back = Recut(there, here, source).buffers(sent, [0, 1])
    assert all(
        np.array_equal(a, b) for one, two in zip(begin, back, strict=True) for a, b in zip(one, two, strict=True)
    )


def test_rows_come_back_in_the_order_they_were_asked_for() -> None:
    found = route(torch.arange(40), 2)
    three = ServerSet([LocalTransport(Service())] * 3, job_of(3), job_of(2), 1, [0] * 3)
    pieces, order = three.keys(found)
    assert order is not None
    rows = [np.repeat(piece.astype(np.float32)[:, None], 2, 1) for piece in pieces]
    header = ps_pb2.PullReply.Header(version=3)
    answers = three.answers([(header, [one]) for one in rows], [(order, 2)])
    assert len(answers) == 2
    values = np.concatenate([np.asarray(tensors[0]) for _, tensors in answers])
    assert values[:, 0].tolist() == found.grouped.tolist()


def test_what_cannot_work_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    client = Client([LocalTransport(Service())], 0, job_of(1))
    with pytest.raises(UsageError, match=r"servers must be a whole number >= 1, got 0"):
        check_reshard(client, 0)
    with pytest.raises(UsageError, match=r"needs a durable job, .* fleetrun --durable DIR"):
        check_reshard(client, 2)
    monkeypatch.setenv("FLEET_DURABLE", str(tmp_path))
    monkeypatch.setenv("FLEET_JOB_ID", "job")
    with pytest.raises(UsageError, match=r"servers that fleetrun has started, and a job of modules"):
        check_reshard(client, 2)
    vars(client.server_set)["term"] = 1  # as where servers have copies
    with pytest.raises(UsageError, match=r"to servers without copies; start the job without --standby"):
        check_reshard(client, 2)
