"""What has no exact meaning where servers have copies is refused before training begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.errors import UsageError
from fleet.jobfiles.terms import Term, Terms
from support.parity.training import joined, served, strategy

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize(
    ("standby", "given", "remedy"),
    [("SYNC", {"wait_for_workers_s": 5.0}, "leave it out"), ("ASYNC", {}, "start it with --standby sync")],
)
def test_synchronous_training_with_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, standby: str, given: dict[str, Any], remedy: str
) -> None:
    monkeypatch.setenv("FLEET_DURABLE", str(tmp_path))
    monkeypatch.setenv("FLEET_STANDBY", standby)
    with served(1) as (endpoints, _):
        Terms(tmp_path).use(Term(1, (str(endpoints[0]),), ("",)))
        with pytest.raises(UsageError, match=remedy), joined(endpoints, strategy=strategy("sync", **given)):
            pass
