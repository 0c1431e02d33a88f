"""A sample of `make fuzz-journals`."""

from __future__ import annotations

from pathlib import Path

from fuzz.fuzz_journals import fuzz


def test_a_damaged_journal_is_refused_or_cut_and_never_wrong(tmp_path: Path) -> None:
    outcomes = fuzz(120, tmp_path)
    assert outcomes["truncate", "cut"] > 5
    assert outcomes["flip", "refused"] == 20
