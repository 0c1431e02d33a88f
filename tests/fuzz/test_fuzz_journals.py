"""A sample of `make fuzz-journals`."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.fuzz_journals import fuzz


def test_a_damaged_journal_is_refused_or_cut_and_never_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_TABLE_DIR", str(tmp_path / "tables"))
    outcomes = fuzz(14 * 7, tmp_path)
    assert outcomes["truncate", "cut"] > 1
    assert outcomes["truncate", "refused"] > 5
    assert outcomes["flip", "refused"] > 1  # a flip may hit what nothing reads, and sizes of files are of the moment
    assert outcomes["exchange_rows", "refused"] == 2
