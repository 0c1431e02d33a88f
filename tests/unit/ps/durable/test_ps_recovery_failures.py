"""What a server has and its journal does not, or not whole: nothing may be built on that."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fleet import checkpoint
from fleet.errors import CheckpointError, CommunicationError
from fleet.ps.durable import durability, storage
from fleet.ps.journal import snapshots
from fleet.ps.journal.files import snapshots_in
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from support.durable.server_state import everything
from support.parity.training import joined, served, strategy
from support.processes import wait_until

pytestmark = pytest.mark.timeout(120)


def test_a_server_that_cannot_keep_the_checkpoint_it_begins_with_has_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next life would have what came after the checkpoint, without it."""
    with served(1) as (endpoints, _), joined(endpoints, strategy=strategy("half")) as one:
        one.train(5)
        one.fleet.save_persistables(tmp_path / "saved")
    begun = partial(Service, journal=(tmp_path / "server-0", "OS"), model_dir=tmp_path / "saved")
    service = begun()
    with served([service]) as (endpoints, _):
        with monkeypatch.context() as patch, pytest.raises(CheckpointError, match="could not be kept: No space left"):
            patch.setattr(snapshots, "write_all", _full)
            with joined(endpoints, strategy=strategy("half")):
                pass
        with pytest.raises(CheckpointError, match="could not be kept"), monkeypatch.context() as patch:
            patch.setattr(snapshots, "write_all", _full)
            with joined(endpoints, strategy=strategy("half")):
                pass
    service = begun()
    with served([service]) as (endpoints, _), joined(endpoints, strategy=strategy("half")) as one:
        assert len(service.state.held.tables[0]) > 0
        assert one.worker.policy.version == 5


def test_workers_that_begin_at_once_load_a_checkpoint_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each had made a snapshot, and where the last found no room, what others had been told was forgotten."""
    with served(1) as (endpoints, _), joined(endpoints, strategy=strategy("half")) as one:
        one.train(5)
        one.fleet.save_persistables(tmp_path / "saved")
        job = replace(one.worker.client.job, num_workers=3).to_json()
    service = Service(journal=(tmp_path / "server-0", "OS"), model_dir=tmp_path / "saved")
    kept, entered = service.core.durability, []
    assert kept is not None
    undisturbed, load, keep_whole = service.core.undisturbed, storage.load, kept.keep_whole

    def enter() -> Any:
        entered.append("worker")
        return undisturbed()

    def load_last(*args: Any) -> Any:
        wait_until(lambda: len(entered) == 3, 30, "every worker")
        return load(*args)

    monkeypatch.setattr(service.core, "undisturbed", enter)
    monkeypatch.setattr(storage, "load", load_last)
    snapshots_made: list[str | None] = []
    monkeypatch.setattr(kept, "keep_whole", lambda: snapshots_made.append(keep_whole()))

    def declare(worker: int) -> int:
        header = ps_pb2.DeclareRequest.Header(caller=ps_pb2.Caller(worker=worker), job=job, life=worker + 7)
        reply: Any = service.handle("Declare", header, ())[0]
        return int(reply.version)

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(declare, range(3))) == [5, 5, 5]
    assert snapshots_made == [None]
    service.close()


def test_a_checkpoint_that_was_loaded_in_part_stops_pushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal knows nothing of that part."""
    load = checkpoint.TableLoad.load

    def fail(part: checkpoint.TableLoad) -> int:
        load(part)
        raise CheckpointError("emb.npy cannot be read: Input/output error")

    service = Service(journal=(tmp_path / "server-0", "OS"))
    with served([service]) as (endpoints, _), joined(endpoints, strategy=strategy("half")) as one:
        one.train(3)
        one.fleet.save_persistables(tmp_path / "saved")
        one.train(3, 5)
        with monkeypatch.context() as patch, pytest.raises(CheckpointError, match="output error; server 0 now has a"):
            patch.setattr(checkpoint.TableLoad, "load", fail)
            one.fleet.load_model(tmp_path / "saved")
        with pytest.raises(CommunicationError, match="load one that is whole"):
            one.train(5, 6)
        one.fleet.load_model(tmp_path / "saved")
        one.train(3, 5)
    again = Service(journal=(tmp_path / "server-0", "OS"))
    again.close()
    assert everything(again) == everything(service)


def test_a_load_that_comes_again_takes_nothing_back(tmp_path: Path) -> None:
    service = Service(journal=(tmp_path / "server-0", "OS"))
    with served([service]) as (endpoints, _), joined(endpoints, strategy=strategy("half")) as one:
        one.train(2)
        one.fleet.save_persistables(tmp_path / "saved")
        saved = checkpoint.find(tmp_path / "saved")
        caller = one.worker.client.caller(0)
        header = ps_pb2.LoadRequest.Header(caller=caller, folder=str(saved), sequence=one.worker.client.next_number())
        first, _ = service.handle("Load", header, ())
        one.train(2, 8)
        assert service.handle("Load", header, ())[0] == first
        assert service.state.rounds.version == 8
    service = Service(journal=(tmp_path / "server-0", "OS"))
    assert service.handle("Load", header, ())[0] == first
    assert service.state.rounds.version == 8
    header.sequence += 100
    service.handle("Load", header, ())
    assert service.state.rounds.version == 2
    service.close()


def test_snapshots_go_on_after_one_that_failed_and_not_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(journal=(tmp_path / "server-0", "OS"))
    kept = service.core.durability
    assert kept is not None
    with served([service]) as (endpoints, _), joined(endpoints, strategy=strategy("half")) as one:
        one.train(2)
        monkeypatch.setattr(durability, "SNAPSHOT_BYTES", 0)

        def ask() -> None:
            kept._next_at = 0
            kept._is_due.set()
            wait_until(lambda: not kept._is_due.is_set(), 10, "a look")
            with kept.snapshotting:
                pass

        def has_come() -> bool:
            ask()
            return bool(snapshots_in(tmp_path / "server-0"))

        with monkeypatch.context() as patch:
            tried = threading.Event()

            def fail(*_: object) -> None:
                tried.set()
                raise MemoryError

            patch.setattr(durability, "rows_part", fail)
            ask()
            assert tried.wait(10)
        service.core.failure = "a push failed in the middle"
        ask()
        assert not snapshots_in(tmp_path / "server-0")
        service.core.failure = None
        wait_until(has_come, 10, "a snapshot")


def _full(file: int, buffers: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
