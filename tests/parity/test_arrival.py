"""The order in which the workers' pushes reach a server does not change a bit, nor who a block's server is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fleet.ps.job.placement import HashName, RoundRobin
from support.parity.around import RULES, batches
from support.parity.beside_servers import Order, Recipe, train
from support.parity.saved import Arrays, differences, saved
from support.sweeps import sweep

NUM_WORKERS, NUM_SERVERS, NUM_STEPS = 4, 2, 20
WORKERS = list(range(NUM_WORKERS))


def turned(server: int, step: int) -> list[int]:
    """Another worker is first in every step, and on every server."""
    first = (step + server) % NUM_WORKERS
    return WORKERS[first:] + WORKERS[:first]


ORDERS: dict[str, Order] = {
    "rising": lambda *_: WORKERS,
    "falling": lambda *_: WORKERS[::-1],
    "turned": turned,
    "opposite on the servers": lambda server, _: [2, 0, 3, 1] if server else [1, 3, 0, 2],
}


@cache
def outcome(rule: str) -> tuple[list[float], Arrays]:
    """In whatever order they come."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "saved"
        losses = train(NUM_WORKERS, NUM_SERVERS, Recipe(RULES[rule]), batches(NUM_STEPS), save=path)
        return losses, saved(path)


@pytest.mark.parametrize(
    ("rule", "order"),
    sweep(RULES, ORDERS, sample=lambda rule, order: rule == "adam" or order == "opposite on the servers"),
)
def test_order_of_arrival_changes_nothing(rule: str, order: str, tmp_path: Path) -> None:
    losses, expected = outcome(rule)
    data = batches(NUM_STEPS)
    assert losses == train(
        NUM_WORKERS, NUM_SERVERS, Recipe(RULES[rule]), data, order=ORDERS[order], save=tmp_path / "saved"
    )
    assert differences(saved(tmp_path / "saved"), expected) == []


def all_on_the_last(names: Sequence[str], num_servers: int) -> list[int]:
    return [num_servers - 1] * len(names)


def by_length(names: Sequence[str], num_servers: int) -> list[int]:
    return [len(name) % num_servers for name in names]


@pytest.mark.parametrize("dispatcher", [RoundRobin(), HashName(), all_on_the_last, by_length], ids=str)
@pytest.mark.parametrize("num_servers", [2, 3])
def test_placement_changes_nothing(dispatcher: object, num_servers: int, tmp_path: Path) -> None:
    losses, expected = outcome("adam")
    recipe = Recipe(RULES["adam"], dispatcher=dispatcher)
    assert losses == train(NUM_WORKERS, num_servers, recipe, batches(NUM_STEPS), save=tmp_path / "saved")
    assert differences(saved(tmp_path / "saved"), expected) == []
