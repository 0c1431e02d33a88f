"""What a worker writes down before it is sent: it is on the disk where a push that was answered is."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from fleet.ps.proto import ps_pb2
from fleet.ps.worker.calling.outbox import own_outbox


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
