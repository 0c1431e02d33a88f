"""A load that could not be kept leaves nothing for which a copy would be filled anew again and again."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from fleet.ps.durable import durability
from fleet.ps.journal.files import snapshots_in
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from support.jobs import LIMIT_S
from support.plane.fuzz_requests import JOB, right
from support.processes import wait_until

pytestmark = pytest.mark.timeout(60)

CALLER = ps_pb2.Caller(incarnation=1)


def test_a_server_that_comes_back_after_it_has_a_snapshot_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    folder = tmp_path / "server-0"
    service = Service(journal=(folder, "OS"))
    service.handle("Declare", ps_pb2.DeclareRequest.Header(caller=CALLER, job=JOB.to_json(), life=7), ())
    service.handle("Start", *right("Start", CALLER))
    with monkeypatch.context() as patch:
        patch.setattr(durability, "SnapshotWriter", refuse)
        with service.core.undisturbed():
            assert service.core.durability is not None
            assert service.core.durability.keep_whole() is not None
    lsn = service.core.durability.journal.lsn
    service.close()
    service = Service(journal=(folder, "OS"))
    try:
        assert service.core.durability is not None
        service.core.durability.copied.is_filling = True  # as a copy that begins anew and anew
        service.handle("Push", *right("Push", CALLER))
        wait_until(lambda: snapshots_in(folder), LIMIT_S, "a snapshot")
        assert snapshots_in(folder)[-1][0] >= lsn
    finally:
        service.close()
