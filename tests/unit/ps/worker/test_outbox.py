"""What a worker writes down before it is sent: it is on the disk where a push that was answered is."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from fleet.errors import CommunicationError
from fleet.jobfiles.kept import LEFT
from fleet.ps.proto import ps_pb2
from fleet.ps.worker.calling import outbox as boxes
from fleet.ps.worker.calling.changes import WorkerChanges
from fleet.ps.worker.calling.outbox import own_outbox
from fleet.ps.worker.calling.server_set import ServerSet


@pytest.mark.parametrize("policy", ["OS", "INTERVAL", "ALWAYS"])
def test_a_push_is_on_the_disk_before_it_is_sent_where_the_journal_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    monkeypatch.setenv("FLEET_DURABLE", str(tmp_path))
    monkeypatch.setenv("FLEET_JOURNAL", policy)
    synced: list[tuple[int, int]] = []
    for name in ("fsync", "fdatasync"):

        def sync(file: int, real: object = getattr(os, name)) -> None:
            synced.append((os.fstat(file).st_ino, os.fstat(file).st_size))
            real(file)  # type: ignore[operator]

        monkeypatch.setattr(os, name, sync)
    outbox = own_outbox(3)
    for size in (4, 400):
        synced.clear()
        message = ps_pb2.PushRequest.Header(sequence=size), [np.ones(size, np.float32)]
        outbox.put([message, message])
        written = (tmp_path / "worker-3" / "outbox").stat()
        assert ((written.st_ino, written.st_size) in synced) == (policy == "ALWAYS")
        if policy == "ALWAYS" and size == 4:
            folder = tmp_path / "worker-3"
            assert {folder.stat().st_ino, tmp_path.stat().st_ino} <= {one for one, _ in synced}
    outbox.remove()


class Reached:
    """A connection to a server that answers, or has ended."""

    endpoint = "127.0.0.1:1"

    def __init__(self, *, is_gone: bool) -> None:
        self._is_gone = is_gone
        self.methods: list[str] = []

    def call(self, method: str, *_: object) -> Reached:
        self.methods.append(method)
        return self

    def look_again(self) -> None:
        """It is where it was."""

    def done(self) -> bool:
        return True

    def result(self, *_: object) -> tuple[Any, tuple[()]]:
        if self._is_gone:
            error = CommunicationError("server 0 is unreachable")
            error.retryable = True
            raise error
        return ps_pb2.LeaveReply.Header(), ()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("gone", [(True, False), (False, True), (True, True)])
def test_a_worker_killed_while_it_left_has_left_where_servers_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: tuple[bool, bool]
) -> None:
    monkeypatch.setenv("FLEET_DURABLE", str(tmp_path))
    monkeypatch.delenv("FLEET_JOB_ID", raising=False)
    monkeypatch.setattr(boxes, "rpc_timeout_s", lambda: 0.2)
    former = own_outbox(0)
    former.put([(ps_pb2.PushRequest.Header(sequence=1), [])] * 2)
    former.intend("Leave", [(ps_pb2.LeaveRequest.Header(sequence=2), ())] * 2)
    servers = [Reached(is_gone=one) for one in gone]
    job = SimpleNamespace(is_elastic=False, mode="async", clips_on_servers=False)
    server_set = ServerSet(cast("Any", servers), cast("Any", job), cast("Any", job))
    client = SimpleNamespace(server_set=server_set, job=job, worker=0)
    with pytest.raises(SystemExit) as ended:
        WorkerChanges(cast("Any", client), own_outbox(0), None).finish()
    assert ended.value.code == 0
    assert {method for server in servers for method in server.methods} == {"Leave"}
    assert [path.name for path in (tmp_path / "worker-0").iterdir()] == [LEFT]
