"""Slots that share a table, in a collection or in modules of their own, train it as one plain parameter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import fleet
from support.parity.around import INITIALIZER, RULES, WIDTHS, Batch, batches, worst_error
from support.parity.beside_servers import Recipe, train
from support.parity.plain import PlainEmbedding, train_plain
from support.parity.saved import Arrays, differences, saved

DIM = WIDTHS["ids"]


class Sharing(nn.Module):
    """Looks up one table twice, for the ids and for the bags, and another one for the first id alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4 * DIM + WIDTHS["bags"], 16), nn.Tanh(), nn.Linear(16, 1))

    def rows(self, batch: Batch) -> list[torch.Tensor]:
        raise NotImplementedError

    def forward(self, batch: Batch) -> torch.Tensor:
        logits: torch.Tensor = self.layers(torch.cat([part.flatten(1) for part in self.rows(batch)], 1)).squeeze(1)
        return logits


class Plain(Sharing):
    def __init__(self) -> None:
        super().__init__()
        self.shared, self.own = PlainEmbedding("ids", "mean"), PlainEmbedding("bags", "none")

    def rows(self, batch: Batch) -> list[torch.Tensor]:
        return [self.shared(batch.ids), self.shared(batch.bags, batch.offsets), self.own(batch.ids[:, 0])]


class Modules(Sharing):
    def __init__(self) -> None:
        super().__init__()
        self.slots = fleet.nn.Embedding(DIM, table="ids", initializer=INITIALIZER)
        self.bags = fleet.nn.Embedding(DIM, table="ids", initializer=INITIALIZER, pooling="mean")
        self.own = fleet.nn.Embedding(WIDTHS["bags"], table="bags", initializer=INITIALIZER)

    def rows(self, batch: Batch) -> list[torch.Tensor]:
        return [self.slots(batch.ids), self.bags(batch.bags, batch.offsets), self.own(batch.ids[:, 0])]


class Collection(Sharing):
    def __init__(self) -> None:
        super().__init__()
        self.collection = fleet.nn.EmbeddingCollection(
            [
                fleet.nn.Slot("slots", DIM, table="ids", initializer=INITIALIZER),
                fleet.nn.Slot("bags", DIM, table="ids", initializer=INITIALIZER, pooling="mean"),
                fleet.nn.Slot("own", WIDTHS["bags"], table="bags", initializer=INITIALIZER),
            ]
        )

    def rows(self, batch: Batch) -> list[torch.Tensor]:
        found = self.collection({"slots": batch.ids, "bags": (batch.bags, batch.offsets), "own": batch.ids[:, 0]})
        return [found["slots"], found["bags"], found["own"]]


def loss_of(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(model(batch), batch.label)


def trained(model: Any, rule: str, num_workers: int, folder: Path) -> tuple[list[float], Arrays]:
    recipe = Recipe(RULES[rule], model=model, loss=loss_of)
    losses = train(num_workers, 2, recipe, batches(), save=folder)
    state = saved(folder)
    # Two modules train a row by two lookups, a collection by one; a row counts its lookups.
    return losses, {name: array for name, array in state.items() if not name.endswith(", seen")}


@pytest.mark.parametrize("rule", ["sgd", "adagrad", "adam"])
def test_a_shared_table(rule: str, tmp_path: Path) -> None:
    expected, _ = train_plain(RULES[rule], batches(), model=Plain, loss=loss_of)
    modules, state_of_modules = trained(Modules, rule, 1, tmp_path / "modules")
    collection, state_of_collection = trained(Collection, rule, 1, tmp_path / "collection")
    assert worst_error(modules, expected) < 1e-5
    assert modules == collection
    assert differences(state_of_modules, state_of_collection) == []


@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_a_shared_table_of_several_workers(rule: str, tmp_path: Path) -> None:
    expected, _ = train_plain(RULES[rule], batches(), model=Plain, loss=loss_of)
    for model in (Modules, Collection):
        losses, _ = trained(model, rule, 4, tmp_path / model.__name__)
        assert worst_error(losses, expected) < 1e-5, model.__name__
