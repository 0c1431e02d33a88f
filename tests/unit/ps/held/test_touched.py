"""Which keys have changed since a mark: live, after a death, and where a mark comes while a snapshot is written."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.ps.durable import durability
from fleet.ps.held.touched import MOST_CONSUMERS, Marked, TableKeys, mark_part
from fleet.ps.journal import snapshots
from fleet.ps.journal.records import Kind
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from support.plane.fuzz_requests import JOB, right

ALL = "all"


class Server:
    """A server with a journal, to which one worker pushes."""

    def __init__(self, folder: Path | None) -> None:
        self.service = Service(journal=None if folder is None else (folder, "OS"))
        header = ps_pb2.DeclareRequest.Header(caller=ps_pb2.Caller(worker=0, incarnation=1), job=JOB.to_json(), life=7)
        reply: Any = self.service.handle("Declare", header, ())[0]
        self.caller = ps_pb2.Caller(worker=0, incarnation=reply.incarnation, instance=reply.instance)
        self.service.handle("Start", *right("Start", self.caller))
        self.sequence = 0

    def push(self, *keys: int) -> None:
        """Push gradients of four keys of both tables."""
        header, tensors = right("Push", self.caller)
        self.sequence += 1
        header.sequence, header.step = self.sequence, self.sequence
        for tensor in tensors:
            if tensor.dtype == np.int64:
                tensor[:] = keys
        self.service.handle("Push", header, tensors)

    def mark(self, parent: str, mark: str, consumer: str = "saves") -> list[Any]:
        """What changed in each table, sorted."""
        return marked(self.service, parent, mark, consumer)


def marked(service: Service, parent: str, mark: str, consumer: str = "saves") -> list[Any]:
    with service.core.gate.closed:
        found: Sequence[TableKeys] = service.core.change(Kind.MARK, [mark_part(consumer, parent, mark)])
    return [ALL if is_all else sorted(keys.tolist()) for keys, is_all in found]


def died(folder: Path, to: Path) -> Service:
    """The server that goes on from a folder as it is this moment."""
    shutil.copytree(folder, to, ignore=shutil.ignore_patterns("lock"))
    service = Service(journal=(to, "OS"))
    service.close()
    return service


def test_a_mark_knows_what_changed_since_the_last_two() -> None:
    server = Server(None)
    server.push(1, 2, 3, 4)
    assert server.mark("", "a") == [ALL, ALL]
    server.push(1, 2, 3, 4)
    assert server.mark("", "x", "stream") == [ALL, ALL]
    server.push(3, 4, 5, -6)
    # The first names what came since; the second that its successor was lost; the third is known to nobody.
    keys = [-6, 1, 2, 3, 4, 5]
    assert server.mark("a", "b") == [keys, keys]
    server.push(7, 8, 9, 10)
    both = sorted([*keys, 7, 8, 9, 10])
    assert server.mark("a", "c") == [both, both]
    assert server.mark("b", "d") == [ALL, ALL]
    assert server.mark("d", "e") == [[], []]
    own = [-6, 3, 4, 5, 7, 8, 9, 10]
    assert server.mark("x", "y", "stream") == [own, own]
    assert server.mark("", "", "stream") == []
    server.push(1, 2, 3, 4)
    assert server.mark("y", "z", "stream") == [ALL, ALL], "it has ended"
    shrink, _ = right("Shrink", server.caller)
    shrink.sequence, shrink.unseen_steps = 90, 1
    shrink.ClearField("table")
    shrink.ClearField("score_below")
    shrink.use_score, shrink.decay = False, 0
    assert server.mark("e", "f") == [[1, 2, 3, 4]] * 2
    for number in range(MOST_CONSUMERS):
        server.mark("", "x", f"another {number}")
        assert server.mark("f", "f") == [[], []], "who asks stays"
    assert server.mark("x", "y", "another 0") == [ALL, ALL], "it has asked longest ago"
    server.service.handle("Shrink", shrink, ())
    deleted, waiting = server.mark("f", "g")
    assert deleted == waiting == [-6, 5]
    assert server.service.state.held.tables[0].export_keys(np.array([1, 5], np.int64))["gone"].tolist() == [5]
    server.service.close()


@pytest.mark.parametrize("snapshot", ["none", "before", "between", "marked meanwhile"])
def test_after_a_death_the_same_keys_are_known(snapshot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(tmp_path / "server-0")
    kept = server.service.core.durability
    assert kept is not None
    if snapshot == "before":
        kept._write_snapshot()
    server.push(1, 2, 3, 4)
    server.mark("", "a")
    server.push(5, 6, 7, 8)
    server.mark("a", "b")
    server.push(8, 9, 10, 11)
    if snapshot == "between":
        kept._write_snapshot()
    if snapshot == "marked meanwhile":
        monkeypatch.setattr(durability, "ROWS_AT_ONCE", 1)
        write, todo = snapshots.SnapshotWriter.write, [0, 1]

        def writes(writer: snapshots.SnapshotWriter, kind: Kind, lsn: int, parts: Any) -> None:
            write(writer, kind, lsn, parts)
            if kind is Kind.ROWS and todo:  # some shards have what comes now, others have not
                todo.pop()
                server.push(20, 21, 22, 23) if todo else server.mark("b", "c")

        with monkeypatch.context() as patch:
            patch.setattr(snapshots.SnapshotWriter, "write", writes)
            kept._write_snapshot()
        assert not todo
    server.push(12, 13, 14, 15)
    parent = "c" if snapshot == "marked meanwhile" else "b"
    again = died(tmp_path / "server-0", tmp_path / "died")
    lost = died(tmp_path / "server-0", tmp_path / "died too")
    expected = server.mark(parent, "z")
    assert expected[0] == ([12, 13, 14, 15] if parent == "c" else [8, 9, 10, 11, 12, 13, 14, 15])
    found = again.state.touched.mark(Marked("saves", parent, "z"))
    assert [sorted(keys.tolist()) for keys, _ in found] == expected
    before = {"b": "a", "c": "b"}[parent]
    both = lost.state.touched.mark(Marked("saves", before, "z"))
    assert set(both[0].keys.tolist()) >= {*expected[0], 8}, "the set before the last mark is there as well"
    server.service.close()
