"""What a copy may read of its server's folder: the files of the newest snapshot, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.errors import UsageError
from fleet.jobfiles.terms import Term, Terms
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.standby.standing import Standing

pytestmark = pytest.mark.timeout(60)

HERE, THERE = "127.0.0.1:1", "127.0.0.1:2"


@pytest.mark.parametrize("name", ["../secret", "lock", "journal.end", "{secret}", "snapshot-1.runs/../../secret"])
def test_no_other_file_is_handed_out(tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of somebody else")
    terms = Terms(tmp_path)
    terms.use(Term(1, (HERE,), (THERE,)))
    service = Service(journal=(tmp_path / "server-0", "OS"), standing=Standing(terms, HERE, None, is_sync=True))
    try:
        asked = ps_pb2.FollowRequest.Header(
            caller=ps_pb2.Caller(term=1), copy=7, file=name.format(secret=secret), timeout_ms=1
        )
        with pytest.raises(UsageError, match="is no file of the newest snapshot"):
            service.handle("Follow", asked, ())
    finally:
        service.close()
