"""What a server does for a checkpoint of all workers: meetings, and writing in the background."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet import checkpoint
from fleet.checkpoint.folders.turns import turn
from fleet.errors import CheckpointError, CommunicationError, NotReadyError, UsageError
from fleet.ps.durable import saves, storage
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.meetings import meetings
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from support.parity.training import in_threads, started

TABLE = TableSpec("ads", 2, rules.Adagrad(lr=0.5), initializers.Constant(1.0), entries.AlwaysEntry())


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    for worker in range(2):
        declare(made, worker)
    yield made
    made.close()


def caller(worker: int, incarnation: int = 1) -> ps_pb2.Caller:
    return ps_pb2.Caller(worker=worker, incarnation=incarnation)


def declare(service: Service, worker: int, incarnation: int = 1) -> None:
    job = JobSpec(num_workers=2, num_servers=1, mode="sync", tables=(TABLE,))
    header = ps_pb2.DeclareRequest.Header(caller=caller(worker, incarnation), job=job.to_json())
    service.handle("Declare", header, ())


def meet(service: Service, worker: int, name: str = "m", incarnation: int = 1, **fields: Any) -> Any:
    given = {"is_here": True, "text": f"of {worker}", "timeout_ms": 20_000, **fields}
    header = ps_pb2.MeetRequest.Header(caller=caller(worker, incarnation), name=name, **given)
    return service.handle("Meet", header, ())[0]


def push(service: Service, worker: int, step: int) -> None:
    table = ps_pb2.PushRequest.Table(table=0, lr=0.5)
    header = ps_pb2.PushRequest.Header(caller=caller(worker), sequence=step + 1, step=step, tables=[table])
    service.handle("Push", header, [np.array([1, 2]), np.ones((2, 2), np.float32)])


def save(service: Service, folder: Path, **fields: Any) -> Any:
    header = ps_pb2.SaveRequest.Header(caller=caller(0), folder=str(folder), in_background=True, **fields)
    return service.handle("Save", header, ())[0]


def test_all_who_meet_learn_what_each_said(service: Service) -> None:
    replies = in_threads(lambda: meet(service, 0), lambda: meet(service, 1))
    for reply in (*replies, meet(service, 0)):  # also who asks again, for the answer was lost
        assert (reply.is_complete, list(reply.texts)) == (True, ["of 0", "of 1"])


def test_who_waits_is_told_who_is_missing_and_whether_anybody_is_at_work(service: Service) -> None:
    reply = meet(service, 0, timeout_ms=1)
    assert (reply.is_complete, list(reply.missing), list(reply.elsewhere), reply.signs) == (False, [1], [], 1)
    assert meet(service, 0, timeout_ms=1).signs == 1
    assert meet(service, 1, is_here=False, others=[1], timeout_ms=0).signs == 2
    assert meet(service, 0, others=[0], timeout_ms=1).is_complete
    with pytest.raises(UsageError, match="worker 7 does not exist in a job of 2 workers"):
        meet(service, 0, others=[7])


def test_one_who_makes_a_step_instead_will_not_come(service: Service) -> None:
    (waiting,) = started(lambda: meet(service, 0, is_between_steps=True))
    push(service, 1, 0)
    assert list(waiting.result(20).elsewhere) == [1]
    assert not meet(service, 0, timeout_ms=1).elsewhere  # of a meeting in the background nothing follows from a step
    push(service, 0, 0)
    service.handle("Leave", ps_pb2.LeaveRequest.Header(caller=caller(1), sequence=100), ())
    assert list(meet(service, 0, name="n").elsewhere) == [1]


def test_what_a_former_life_said_does_not_count(service: Service) -> None:
    meet(service, 1, timeout_ms=0)
    declare(service, 1, incarnation=2)
    assert list(meet(service, 0, timeout_ms=1).missing) == [1]
    with pytest.raises(CommunicationError, match="its former life"):
        meet(service, 1)


def test_old_meetings_are_forgotten(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_known(number: int | str) -> bool:
        return 1 not in meet(service, 0, name=f"{number}", timeout_ms=1).missing

    for number in range(meetings.NUM_KEPT):
        meet(service, 1, name=f"{number}", timeout_ms=0)
    assert is_known(0)
    meet(service, 1, name="one more", timeout_ms=0)
    assert is_known(1)
    assert not is_known(0)
    monkeypatch.setattr(meetings, "MAX_KEPT", 100)  # letters
    meet(service, 1, name="a long one", text="x" * 100, timeout_ms=0)
    assert is_known("one more")
    assert not is_known(200)


def test_meetings_end_with_the_server(service: Service) -> None:
    (waiting,) = started(lambda: meet(service, 0))
    service.close()
    with pytest.raises(CommunicationError, match="the server is stopping"):
        waiting.result(20)


def test_a_save_in_the_background_has_what_was_there_when_it_began(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for worker in range(2):
        push(service, worker, 0)
    may_write, write = threading.Event(), storage.write
    monkeypatch.setattr(storage, "write", lambda *arguments: may_write.wait(20) and write(*arguments))
    writing = checkpoint.begin(tmp_path / "saved")
    reply = save(service, writing)
    assert (reply.is_written, reply.version) == (False, 1)
    for worker in range(2):
        push(service, worker, 1)
    other = checkpoint.begin(tmp_path / "other")
    monkeypatch.setattr(saves, "IDLE_S", 0.01)
    with pytest.raises(CheckpointError, match=r"server 0 still writes the checkpoint before, into .*; is its disk in"):
        save(service, other)
    monkeypatch.setattr(saves, "IDLE_S", 20.0)
    (waiting,) = started(lambda: save(service, other, timeout_ms=20_000))  # as of a second fleet.Checkpoint
    assert not save(service, writing).is_written  # nobody who asks is kept by one who waits
    may_write.set()
    assert waiting.result(20).version == 2
    reply = save(service, writing, timeout_ms=20_000)  # the same call again tells the end, also when another has begun
    assert (reply.is_written, reply.version) == (True, 1)
    pieces = checkpoint.pieces_from_text(reply.pieces, "it")
    checkpoint.commit(writing, tmp_path / "saved", checkpoint.Manifest(1, 1, pieces))
    assert save(service, other, timeout_ms=20_000).version == 2
    rows = checkpoint.read_piece(tmp_path / "saved" / pieces[0].file.name, pieces[0].file)
    assert rows["step"].tolist() == [0, 0]
    assert np.allclose(rows["values"], 0.5)  # one step of Adagrad from 1.0


def test_a_save_into_nowhere_and_before_there_is_a_job(service: Service, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="server 0 does not see the folder"):
        save(service, tmp_path / "missing")
    with pytest.raises(NotReadyError):
        meet(Service(), 0)


def test_free_memory_is_that_of_the_machine_or_of_the_container(tmp_path: Path) -> None:
    assert saves.free_bytes(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 100 kB\nMemAvailable:   40 kB\n")
    assert saves.free_bytes(tmp_path) == 40 << 10
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.current").write_text("1000\n")
    (group / "memory.max").write_text("max\n")
    assert saves.free_bytes(tmp_path) == 40 << 10
    (group / "memory.max").write_text("5000\n")
    assert saves.free_bytes(tmp_path) == 4000
    assert saves.free_bytes() is not None


def test_saves_into_one_folder_take_turns(tmp_path: Path) -> None:
    inside: list[int] = []

    def save_one(version: int) -> None:
        with checkpoint.saving(tmp_path / "saved") as writing:
            inside.append(version)
            assert inside == [version]
            threading.Event().wait(0.01)
            checkpoint.commit(writing, tmp_path / "saved", checkpoint.Manifest(version, 1, ()))
            inside.remove(version)

    in_threads(*(lambda version=version: save_one(version) for version in range(4)))
    assert json.loads((tmp_path / "saved/manifest.json").read_text())["version"] in range(4)
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    with turn(tmp_path), pytest.raises(CheckpointError, match="waited 0.01 s for another save in"):
        with turn(tmp_path, timeout_s=0.01):
            pass


@pytest.mark.parametrize("fails", [False, True])
def test_who_is_told_that_a_save_is_over_finds_nothing_left_of_what_was_copied(fails: bool) -> None:
    class Copy:
        pass

    copy = Copy()
    alive = weakref.ref(copy)

    def work(_: saves.Moved, copy: Copy = copy) -> str:
        if fails:
            raise CheckpointError(f"{type(copy).__name__} was not written")
        return "{}"

    write = saves.Write("folder", saves.SaveMoment(0), work)
    del copy, work
    write.start()
    if fails:
        with pytest.raises(CheckpointError, match="Copy was not written"):
            write.answer(10)
    else:
        assert write.answer(10).is_written
    assert alive() is None
    write.join()
