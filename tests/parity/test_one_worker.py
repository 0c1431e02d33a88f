"""A job of one worker has nobody to wait for: half-asynchronous and geo training of it equal plain torch too."""

from __future__ import annotations

import pytest

import fleet
from support.parity.around import RULES, batches, worst_error
from support.parity.beside_servers import Recipe, train
from support.parity.plain import train_plain


def strategy_of(mode: str) -> fleet.DistributedStrategy:
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    strategy.a_sync_configs.half_async = mode == "half_async"
    strategy.a_sync_configs.k_steps = 5 if mode == "geo" else 0
    return strategy


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("mode", ["half_async", "geo"])
def test_equals_plain_torch(mode: str, rule: str, accumulate: int) -> None:
    data = batches(20)
    expected, _ = train_plain(RULES[rule], data, accumulate=accumulate)
    recipe = Recipe(RULES[rule], strategy=strategy_of(mode), accumulate=accumulate)
    losses = train(1, 2, recipe, data)
    assert worst_error(losses, expected) < 1e-5
    assert losses == train(1, 2, recipe.prefetched(), data)
