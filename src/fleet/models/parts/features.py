"""What a batch of `fleet.data` is to a model: its numbers, and a row for every category and every bag."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from fleet.errors import UsageError, UsageTypeError
from fleet.models.parts.base import BatchLike, Recommender
from fleet.nn import EmbeddingCollection, Slot
from fleet.nn.collection import SlotInput
from fleet.ps.job.checks import checked
from fleet.ps.job.named_spec import RuleSpec
from fleet.strategy.check import Whole

IDS = "ids"
"""The slot of the categories with one value each; no bag of a schema can be called that."""


class Features(nn.Module):
    """Rows of `dim` from one table: one for each of `num_slots` categories, then the mean of each bag in `bags`.

    One table is enough, for the id of a value is a hash of its slot and its text; and one table is one lookup, one
    pull. `bags` are names of `Batch.slots`: matrices, in which the id 0 is padding and does not count, or
    (values, offsets). A sample without a value has a row of zeros.

        features = Features(num_dense=13, num_slots=26, dim=16, bags=("genres",))
        dense, rows = features(batch)        # [B, 13], [B, 27, 16], on the model's device
    """

    def __init__(
        self,
        num_dense: int,
        num_slots: int,
        dim: int,
        rule: RuleSpec | None = None,
        bags: Sequence[str] = (),
        table: str = "rows",
    ) -> None:
        super().__init__()
        if isinstance(bags, str):
            raise UsageTypeError(f"bags must be a list of slots' names, got {bags!r}; write bags=({bags!r},)")
        self.num_dense = checked("the model", "num_dense", num_dense, Whole(least=0))
        self.num_slots = checked("the model", "num_slots", num_slots, Whole(least=0))
        self.dim = checked("the model", "dim", dim, Whole(least=1))
        self.bags = tuple(bags)
        if self.num_fields == 0:
            raise UsageError("the model has no categories: num_slots is 0 and bags are empty; give it at least one")
        slots = [Slot(IDS, dim, table, rule=rule)] if self.num_slots else []
        slots += [Slot(name, dim, table, "mean", rule, padding_idx=0, include_last_offset=True) for name in self.bags]
        self.rows = EmbeddingCollection(slots)

    @property
    def num_fields(self) -> int:
        """How many rows a sample has."""
        return self.num_slots + len(self.bags)

    @property
    def width(self) -> int:
        """The width of numbers and rows side by side."""
        return self.num_dense + self.num_fields * self.dim

    def keys(self, batch: BatchLike) -> dict[str, SlotInput]:
        """What the collection is called with."""
        ids: dict[str, SlotInput] = {IDS: batch.ids} if self.num_slots else {}
        return ids | bags_of(batch, self.bags)

    def forward(self, batch: BatchLike) -> tuple[torch.Tensor, torch.Tensor]:
        """The numbers [B, num_dense] and the rows [B, num_fields, dim]."""
        check_widths(batch, self.num_dense, self.num_slots)
        found = self.rows(self.keys(batch))
        parts = [found[IDS]] if self.num_slots else []
        parts += [found[name].unsqueeze(1) for name in self.bags]
        rows = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        return batch.dense.to(rows), rows


class Tabular(Recommender):
    """A model over `self.features`, rows of `dim`; what is above them, `build` makes."""

    first_order = False
    """Whether a weight stands before each row."""

    def __init__(
        self,
        num_dense: int,
        num_slots: int,
        dim: int = 16,
        hidden: Sequence[int] = (400, 400, 400),
        dropout: float = 0.0,
        rule: RuleSpec | None = None,
        bags: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.dim = checked("the model", "dim", dim, Whole(least=1))
        self.features = Features(num_dense, num_slots, dim + self.first_order, rule, bags)
        self.build(hidden, dropout)

    def build(self, hidden: Sequence[int], dropout: float) -> None:
        """Make the layers, of these widths; nothing where a model with more settings makes them itself."""

    def keys(self, batch: BatchLike) -> dict[str, SlotInput]:
        return self.features.keys(batch)


def bags_of(batch: BatchLike, bags: Sequence[str]) -> dict[str, SlotInput]:
    """The slots that are pooled, by name."""
    for name in bags:
        if name not in batch.slots:
            there = ", ".join(map(repr, batch.slots)) or "none"
            raise UsageError(f"the batch has no slot {name!r} for the model's bags; its slots: {there}")
    return {name: batch.slots[name] for name in bags}


def check_widths(batch: BatchLike, num_dense: int, num_slots: int) -> None:
    """One line if a batch has other columns than the model was made for."""
    for name, found, wanted in (
        ("num_dense", batch.dense.shape[1], num_dense),
        ("num_slots", batch.ids.shape[1] if num_slots else 0, num_slots),
    ):
        if found != wanted:
            raise UsageError(f"the model was made with {name}={wanted}, and the batch has {found}")


def beside(dense: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Numbers [B, n] and rows [B, fields, dim] as one vector for each sample."""
    return torch.cat([dense, rows.flatten(1)], dim=1)
