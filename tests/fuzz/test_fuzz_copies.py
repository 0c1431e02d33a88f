"""A sample of `make fuzz-copies`."""

from __future__ import annotations

from fuzz.fuzz_copies import fuzz


def test_what_is_damaged_of_a_server_or_its_copy_is_found_and_mended() -> None:
    outcomes = fuzz(0, 18)
    assert {whose for whose, _, _ in outcomes} == {"server", "copy"}
    assert {outcome for _, _, outcome in outcomes} >= {"renewed", "filled again", "began"}
