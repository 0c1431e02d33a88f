"""A sample of the damaged checkpoints of `make fuzz`."""

from __future__ import annotations

import pytest

from fuzz.fuzz_checkpoints import sweep
from support.durable.saved_kinds import KINDS
from support.sweeps import sweep as cases


@pytest.mark.parametrize(("name", "count"), cases(KINDS, [20, 300], sample=lambda _, count: count == 20))
def test_what_is_damaged_is_refused_and_changes_nothing(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_DEVICE", "cpu")
    outcome = sweep(name, count, seed=1)
    assert not outcome.bad
    assert outcome.counts["refused"] >= 0.5 * count
