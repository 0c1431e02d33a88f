"""A few seconds of `make fuzz`."""

from __future__ import annotations

from fleet.ps.wire import messages as wire
from fuzz.fuzz_service import fuzz


def test_a_server_survives_a_few_seconds_of_nonsense() -> None:
    outcomes, failures = fuzz(3, 1)
    assert not failures, failures
    assert {method for method, _ in outcomes} >= {"bytes", *wire.METHODS[:3]}
