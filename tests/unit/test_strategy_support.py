"""Fields whose feature is not built are refused by name; every field is documented; the page is current."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.errors import NotSupportedError, StrategyError
from fleet.strategy import DistributedStrategy, Mode, reference, support
from fleet.strategy.reference import THEMES, page

PAGE = Path(__file__).parents[2] / "docs" / "strategy.md"


def _refusal(strategy: DistributedStrategy) -> str:
    with pytest.raises(NotSupportedError) as caught:
        strategy.require_supported()
    return str(caught.value)


@pytest.fixture
def strategy(monkeypatch: pytest.MonkeyPatch) -> DistributedStrategy:
    """A strategy of a Fleet in which nothing is built, whatever is built today."""
    strategy = DistributedStrategy()
    for leaf in strategy.leaves():
        monkeypatch.setattr(leaf.field, "built", False)
    monkeypatch.setattr(support, "BUILT_MODES", frozenset({Mode.OFF}))
    return strategy


def test_defaults_ask_for_nothing(strategy: DistributedStrategy) -> None:
    strategy.require_supported()
    strategy.amp = False
    strategy.amp_configs = {"incr_ratio": 2}
    strategy.sparse_table_configs = {"t": {"sparse_shard_num": 1000}}
    strategy.require_supported()


def test_every_unbuilt_field_is_named(strategy: DistributedStrategy) -> None:
    strategy.dgc = True
    assert _refusal(strategy) == ("strategy.dgc is set but not supported yet; leave it at its default (False)")
    strategy.amp_configs.init_loss_scaling = 1.0
    assert _refusal(strategy) == (
        "strategy.dgc, strategy.amp_configs.init_loss_scaling are set but not supported yet; "
        "leave them at their defaults (False, 32768.0)"
    )


def test_a_built_field_is_accepted(strategy: DistributedStrategy, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy.dgc = True
    monkeypatch.setattr(DistributedStrategy.dgc, "built", True)
    strategy.require_supported()


@pytest.mark.parametrize("a_sync", [True, False])
def test_assigning_a_sync_asks_for_a_mode(
    strategy: DistributedStrategy, a_sync: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy.a_sync = a_sync
    assert _refusal(strategy) == (
        f"strategy chooses {'async' if a_sync else 'sync'} mode (a_sync = {a_sync}, a_sync_configs.k_steps = 0), "
        "which is not supported yet; set strategy.a_sync_configs.k_steps = -1 to choose none"
    )
    monkeypatch.setattr(support, "BUILT_MODES", frozenset({Mode.ASYNC if a_sync else Mode.SYNC}))
    strategy.require_supported()


def test_the_fields_that_choose_a_mode_are_named(strategy: DistributedStrategy) -> None:
    strategy.a_sync_configs.k_steps = 100
    assert "chooses geo mode (a_sync = True, a_sync_configs.k_steps = 100)" in _refusal(strategy)
    strategy.a_sync_configs = {"k_steps": 0, "half_async": True}
    strategy.dgc = True
    assert _refusal(strategy) == (
        "strategy chooses half_async mode (a_sync = True, a_sync_configs.k_steps = 0, "
        "a_sync_configs.half_async = True), which is not supported yet; set strategy.a_sync_configs.k_steps = -1 and "
        "strategy.a_sync_configs.half_async = False to choose none; "
        "strategy.dgc is set but not supported yet; leave it at its default (False)"
    )


@pytest.mark.parametrize("a_sync", [True, False])
def test_the_remedy_for_a_mode_works(a_sync: bool) -> None:
    strategy = DistributedStrategy()  # with the real BUILT_MODES: choosing none is always possible
    strategy.a_sync = a_sync
    strategy.a_sync_configs.k_steps = -1
    strategy.require_supported()


def test_a_contradiction_is_told_first(strategy: DistributedStrategy) -> None:
    strategy.a_sync = False
    strategy.a_sync_configs.k_steps = 5
    with pytest.raises(StrategyError, match="geo"):
        strategy.require_supported()


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page(), "run python -m fleet.strategy.reference > docs/strategy.md"


def test_the_page_says_so_while_nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    for leaf in DistributedStrategy().leaves():
        monkeypatch.setattr(leaf.field, "built", False)
    monkeypatch.setattr(reference, "BUILT_MODES", frozenset({Mode.OFF}))
    assert "none is honoured yet" in page()
    monkeypatch.setattr(DistributedStrategy.localsgd_configs.group.k_steps, "built", True)
    assert "none is honoured yet" not in page()


def test_the_themes_cover_the_strategy() -> None:
    themed = [name for _, theme in THEMES for name in theme._members]
    assert themed == list(DistributedStrategy._members)


def test_every_field_says_what_it_does() -> None:
    strategy = DistributedStrategy()
    strategy.sparse_table_configs = {"t": {}}
    for leaf in strategy.leaves():
        doc = leaf.field.doc
        assert doc[0].islower(), f"{leaf.dotted}: a predicate, its subject is the field"
        assert doc.endswith((".", ".)")), leaf.dotted
        assert "|" not in doc, f"{leaf.dotted} would break the page's table"
