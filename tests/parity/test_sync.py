"""Synchronous training is exact: any number of workers and servers is one process with the whole batch."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn

from support.parity.around import KEYS, RULES, WIDTHS, Batch, batches, worst_error
from support.parity.beside_servers import Recipe, train
from support.parity.plain import PlainEmbedding, train_plain
from support.parity.saved import Arrays, column, differences, saved
from support.sweeps import sweep

TOLERANCE = 1e-5


@cache
def truth(rule: str) -> tuple[list[float], nn.Module]:
    return train_plain(RULES[rule], batches())


@pytest.mark.parametrize(
    ("rule", "num_workers"), sweep(RULES, [1, 2, 4], sample=lambda rule, workers: workers < 4 or rule == "adam")
)
def test_equals_one_process_on_any_number_of_servers(rule: str, num_workers: int, tmp_path: Path) -> None:
    expected, model = truth(rule)
    data = batches()
    on_one: Arrays = {}
    for num_servers in (1, 2, 3):
        folder = tmp_path / str(num_servers)
        losses = train(num_workers, num_servers, Recipe(RULES[rule]), data, save=folder)
        assert worst_error(losses, expected) < TOLERANCE, f"{num_servers} servers"
        state = saved(folder)
        on_one = on_one or state
        assert differences(state, on_one) == [], f"{num_servers} servers"
    check_tables(on_one, model, data, num_workers)


def check_tables(state: Arrays, model: nn.Module, data: list[Batch], num_workers: int) -> None:
    """Rows are those of the truth, and each counts the pushes that it was part of."""
    for name in WIDTHS:
        plain = model.get_submodule(name)
        assert isinstance(plain, PlainEmbedding)
        values, seen = column(state, name, "values"), column(state, name, "seen")
        pushes: Counter[int] = Counter()
        for batch in data:
            for worker in range(num_workers):
                pushes.update(set(getattr(batch.share(worker, num_workers), name).flatten().tolist()))
        assert {key: int(count) for key, count in seen.items()} == pushes
        assert len(pushes) > len(KEYS) * 0.8, "hardly any key was used"
        rows = dict(zip(KEYS.tolist(), plain.rows.detach(), strict=True))
        found, wanted = (torch.stack([torch.as_tensor(one[key]) for key in values]) for one in (values, rows))
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


def test_the_truth_learns_and_rules_differ() -> None:
    """Else the tests above would compare nothing with nothing."""
    ends = {rule: sum(truth(rule)[0][-10:]) / 10 for rule in RULES}
    begins = {rule: sum(truth(rule)[0][:10]) / 10 for rule in RULES}
    assert all(ends[rule] < begins[rule] - 0.02 for rule in RULES), (begins, ends)
    assert len({round(end, 4) for end in ends.values()}) == len(RULES)
