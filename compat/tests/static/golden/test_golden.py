"""Programs before and after every pass, word by word; `python compat/tests/static/golden/cases.py` writes them."""

from __future__ import annotations

import pytest

from static.golden.cases import CASES, FOLDER, rendered


@pytest.mark.parametrize("name", CASES)
def test_a_pass_writes_what_it_wrote(name: str) -> None:
    assert rendered(name) == (FOLDER / f"{name}.txt").read_text()


def test_every_text_has_a_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(CASES)
