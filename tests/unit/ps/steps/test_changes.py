"""The table of changes: every call that changes a server is in it, live and replayed alike, each once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.errors import CommunicationError, FleetError
from fleet.ps.durable import durability
from fleet.ps.journal.records import Kind
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.steps import changes
from fleet.ps.steps.changes import CHANGES
from fleet.ps.wire import messages as wire
from support.durable.server_state import everything, kinds_of
from support.plane.fuzz_requests import JOB, right

CALLS = {call for change in CHANGES.values() for call in change.calls}
CHANGES_NOTHING = {"Pull", "Stats", "Board", "Follow"}
NUMBERED = sorted({call for change in CHANGES.values() for call in change.calls if change.known_by == "a number"})


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(journal=(tmp_path / "server-0", "OS"))
    yield made
    if not made.core.is_closed:
        made.close()


def begun(service: Service, method: str = "") -> ps_pb2.Caller:
    """A worker of a job that has begun, in which a call has a meaning: with first values, and a push."""
    job = replace(JOB, is_elastic=method == "Join").to_json()
    header = ps_pb2.DeclareRequest.Header(caller=ps_pb2.Caller(worker=0, incarnation=1), job=job, life=7)
    reply: Any = service.handle("Declare", header, ())[0]
    caller = ps_pb2.Caller(worker=0, incarnation=reply.incarnation, instance=reply.instance)
    for method in ("Start", "Push"):
        service.handle(method, *right(method, caller))
    return caller


def asked(method: str, caller: ps_pb2.Caller, folder: Path) -> tuple[Any, Any]:
    """A request that changes something, if its method ever does."""
    header, tensors = right(method, caller)
    if hasattr(header, "sequence"):
        header.sequence = 9
    if method == "Declare":
        header.caller.incarnation, header.life = 2, 8
    elif method in ("Save", "Load"):
        header.folder = str(folder)
    elif method == "Shrink":
        header.unseen_steps, header.keys_to = 1, str(folder)
    elif method == "Meet":
        header.name, header.is_here, header.text = "all", True, "here"
    elif method == "Push":
        header.step = 50
    return header, tensors


def test_every_call_of_the_wire_is_one_that_changes_nothing_or_stands_in_the_table() -> None:
    assert set(wire.METHODS) == CALLS | CHANGES_NOTHING
    assert not CALLS & CHANGES_NOTHING
    assert set(CHANGES) == {kind for kind in Kind if Kind.SEGMENT < kind < Kind.STATE}


@pytest.mark.parametrize("method", wire.METHODS)
def test_a_call_leaves_records_of_its_rows_of_the_table_alone(method: str, service: Service, tmp_path: Path) -> None:
    caller, folder = begun(service, method), tmp_path / "server-0"
    (tmp_path / "saved").mkdir()
    kept, before = service.core.durability, everything(service)
    assert kept is not None
    lsn = kept.counts()["record"]
    try:
        service.handle(method, *asked(method, caller, tmp_path / "saved"))
    except FleetError:
        assert method in ("Reshard", "Norm", "Load", "Follow"), "this shows nothing"
    has_changed = everything(service) != before
    written = kinds_of(folder, lsn)
    assert {method} <= CALLS if written or has_changed else True
    assert all(method in CHANGES[kind].calls for kind in written), written
    assert has_changed == bool(written) or method in ("Push", "Shrink", "Load")
    died = shutil.copytree(folder, tmp_path / "died", ignore=shutil.ignore_patterns("lock"))
    again = Service(journal=(Path(died), "OS"))
    again.close()
    assert everything(again) == everything(service)


@pytest.mark.parametrize("method", [one for one in NUMBERED if one not in ("Load", "Declare", "Reshard")])
def test_a_numbered_change_that_comes_again_is_answered_as_before_also_after_a_death(
    method: str, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = begun(service, method)
    first = service.handle(method, *asked(method, caller, tmp_path / "saved"))[0]
    after = everything(service)
    again: Any = service.handle(method, *asked(method, caller, tmp_path / "saved"))[0]
    if method == "Push":
        assert again.was_repeated
    else:
        assert again == first
    assert everything(service)["tables"] == after["tables"]
    service.close()
    for num_bytes in (1 << 30, 0):  # from the records, then from a snapshot
        monkeypatch.setattr(durability, "SNAPSHOT_BYTES", num_bytes)
        service = Service(journal=(tmp_path / "server-0", "OS"))
        if num_bytes == 0:
            assert service.core.durability is not None
            service.core.durability._write_snapshot()
        again = service.handle(method, *asked(method, caller, tmp_path / "saved"))[0]
        assert again.was_repeated if method == "Push" else again == first
        assert everything(service)["tables"] == after["tables"]
        service.close()


@pytest.mark.parametrize("method", ["Push", "Shrink", "Assign"])
def test_a_change_that_fails_half_way_fails_the_server_until_it_has_replayed(
    method: str, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = begun(service)
    kind = next(kind for kind, change in CHANGES.items() if method in change.calls)
    apply = CHANGES[kind].apply

    def breaks(*arguments: Any) -> None:
        apply(*arguments)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(changes, "CHANGES", {**CHANGES, kind: CHANGES[kind]._replace(apply=breaks)})
        patch.setattr("fleet.ps.steps.core.CHANGES", changes.CHANGES)
        with pytest.raises(CommunicationError, match=f"{kind.name.lower()} failed half-way .*: .*No space") as refused:
            service.handle(method, *asked(method, caller, tmp_path / "saved"))
        assert refused.value.retryable
    assert service.core.is_torn.is_set()
    header, tensors = right("Push", caller)
    header.sequence = 10
    with pytest.raises(CommunicationError, match=f"{kind.name.lower()} failed half-way on this server"):
        service.handle("Push", header, tensors)
    with pytest.raises(CommunicationError, match="half-way"):
        service.core.durability._write_snapshot()  # type: ignore[union-attr]
    service.close()
    again = Service(journal=(tmp_path / "server-0", "OS"))
    reply: Any = again.handle(method, *asked(method, caller, tmp_path / "saved"))[0]
    assert method != "Push" or reply.was_repeated
    again.handle("Push", header, tensors)
    again.close()


@pytest.mark.parametrize("method", ["Keep", "Leave", "Shrink", "Assign"])
def test_a_change_without_a_number_is_refused(method: str, service: Service, tmp_path: Path) -> None:
    header, tensors = asked(method, begun(service), tmp_path)
    header.sequence = 0
    before = everything(service)
    with pytest.raises(FleetError, match=r"numbered from 1 on \(sequence\), got 0"):
        service.handle(method, header, tensors)
    assert everything(service) == before


def test_keys_of_rows_that_cannot_be_listed_stay(service: Service, tmp_path: Path) -> None:
    caller = begun(service)
    push, tensors = right("Push", caller)
    push.sequence, push.step = 2, 50
    tensors = [one.copy() for one in tensors]
    tensors[0][:] = [101, 102, 103, 104]
    service.handle("Push", push, tensors)
    table = service.state.held.tables[0]
    header = ps_pb2.ShrinkRequest.Header(caller=caller, table="ads", unseen_steps=10, sequence=3)
    header.keys_to = str(tmp_path / "keys")
    (tmp_path / "keys").write_text("no folder")
    with pytest.raises(FleetError, match="cannot list keys in"):
        service.handle("Shrink", header, ())
    assert len(table) == 8
    (tmp_path / "keys").unlink()
    reply: Any = service.handle("Shrink", header, ())[0]
    assert (reply.deleted, len(table)) == (4, 4)
    assert np.load(tmp_path / "keys" / "ads.server-000.npy").tolist() == [-5, 1, 2, 2**62]
    assert [one.name for one in (tmp_path / "keys").iterdir()] == ["ads.server-000.npy"]


def test_a_list_of_keys_takes_its_place_also_when_the_server_dies_after_the_record(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = begun(service)
    header = ps_pb2.ShrinkRequest.Header(caller=caller, table="ads", score_below=1, sequence=3)
    push, tensors = right("Push", caller)
    push.sequence, push.step = 2, 50
    service.handle("Push", push, [tensors[0] + 100, *tensors[1:]])
    header.ClearField("score_below")
    header.unseen_steps, header.keys_to = 10, str(tmp_path / "keys")

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("fleet.ps.held.holdings.Holdings.shrink", dies)
        service.handle("Shrink", header, ())
    assert not (tmp_path / "keys" / "ads.server-000.npy").exists()
    service.close()
    again = Service(journal=(tmp_path / "server-0", "OS"))
    assert np.load(tmp_path / "keys" / "ads.server-000.npy").tolist() == [-5, 1, 2, 2**62]
    assert len(again.state.held.tables[0]) == 4
    again.close()
