"""Every field is documented, and the fields that choose a mode do not contradict each other."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fleet.errors import StrategyError
from fleet.strategy import DistributedStrategy

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "strategy.md"
sys.path.insert(0, str(ROOT / "website"))
try:
    from strategy_page import THEMES, page
finally:
    sys.path.remove(str(ROOT / "website"))


@pytest.mark.parametrize("a_sync", [True, False])
def test_no_mode_can_be_chosen_again(a_sync: bool) -> None:
    strategy = DistributedStrategy()
    strategy.a_sync = a_sync
    strategy.a_sync_configs.k_steps = -1
    strategy.require_supported()


def test_a_contradiction_is_told() -> None:
    strategy = DistributedStrategy()
    strategy.a_sync = False
    strategy.a_sync_configs.k_steps = 5
    with pytest.raises(StrategyError, match="geo"):
        strategy.require_supported()


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page(), "run python website/strategy_page.py > docs/strategy.md"


def test_the_page_has_everything() -> None:
    text = page()
    for leaf in DistributedStrategy().leaves():
        assert f"| `{leaf.path[-1]}` | " in text


def test_the_themes_cover_the_strategy() -> None:
    themed = [name for _, theme in THEMES for name in theme._members]
    assert themed == list(DistributedStrategy._members)


def test_every_field_says_what_it_does() -> None:
    for leaf in DistributedStrategy().leaves():
        doc = leaf.field.doc
        assert doc[0].islower(), f"{leaf.dotted}: a predicate, its subject is the field"
        assert doc.endswith((".", ".)")), leaf.dotted
        assert "|" not in doc, f"{leaf.dotted} would break the page's table"
