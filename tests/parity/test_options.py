"""What a script does around a step works as in plain torch: accumulation, weight decay, schedules, groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import nn
from torch.optim import SGD, Adagrad, Adam, Optimizer
from torch.optim.lr_scheduler import LambdaLR, StepLR

from support.parity.around import RULES, batches, worst_error
from support.parity.beside_servers import Recipe, train
from support.parity.plain import train_plain
from support.parity.saved import differences, saved

TOLERANCE = 1e-5
NUM_STEPS = 16


def check(tmp_path: Path, optimizer: Callable[[nn.Module], Optimizer], **how: Any) -> None:
    """Two workers on two servers equal one process; so does one on three, and prefetching changes no bit."""
    data = batches(NUM_STEPS)
    expected, _ = train_plain(optimizer, data, **how)
    recipe = Recipe(optimizer, **how)
    losses = train(2, 2, recipe, data, save=tmp_path / "plain")
    assert worst_error(losses, expected) < TOLERANCE
    assert worst_error(train(1, 3, recipe, data), expected) < TOLERANCE
    assert losses == train(2, 3, recipe.prefetched(), data, save=tmp_path / "prefetched")
    assert differences(saved(tmp_path / "prefetched"), saved(tmp_path / "plain")) == []


@pytest.mark.parametrize("rule", RULES)
def test_two_backward_passes_make_one_step(rule: str, tmp_path: Path) -> None:
    check(tmp_path, RULES[rule], accumulate=2)


@pytest.mark.parametrize("kind", [SGD, Adagrad, Adam])
def test_weight_decay(kind: Any, tmp_path: Path) -> None:
    lr = {SGD: 0.1, Adagrad: 0.01, Adam: 0.01}[kind]
    check(tmp_path, lambda model: kind(model.parameters(), lr=lr, weight_decay=0.01))


@pytest.mark.parametrize("rule", RULES)
def test_a_schedule_of_the_wrapped_optimizer_reaches_the_servers(rule: str, tmp_path: Path) -> None:
    check(tmp_path, RULES[rule], schedule=lambda optimizer: StepLR(optimizer, step_size=5, gamma=0.6))


def groups(model: nn.Module) -> list[dict[str, Any]]:
    """Each table has a group of its own, and so has each layer."""
    rates = {"ids": 0.5, "bags": 2.0, "layers.0": 1.0, "layers.2": 0.3}
    return [{"params": model.get_submodule(name).parameters(), "lr": 0.01 * rate} for name, rate in rates.items()]


@pytest.mark.parametrize("kind", [SGD, Adagrad, Adam])
def test_groups_with_learning_rates_of_their_own(kind: Any, tmp_path: Path) -> None:
    check(tmp_path, lambda model: kind(groups(model), lr=1.0))


def test_a_schedule_moves_each_group_by_itself(tmp_path: Path) -> None:
    def falling(rate: float) -> Callable[[int], float]:
        return lambda step: 1 / (1 + rate * step)

    def schedule(optimizer: Optimizer) -> LambdaLR:
        return LambdaLR(optimizer, [falling(rate) for rate in (0.0, 0.1, 0.2, 0.5)])

    check(tmp_path, lambda model: Adam(groups(model), lr=1.0), schedule=schedule)
