"""One small click model, trained three ways that must agree: plain torch, Fleet in this process, Fleet in many.

`CTR` is built of embeddings: either `fleet.nn.Embedding` or the plain ones of `support.parity.plain`. The batches are
the same for all, and N workers share each of them evenly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.optim import SGD, Adagrad, Adam, Optimizer

import fleet

STEPS, BATCH, SLOTS, NUMBERS = 30, 32, 3, 4
WIDTHS = {"ids": 5, "bags": 3}
HIDDEN = 1280
"""So many that the first layer is cut: into two blocks on two servers, three on three."""
VOCABULARY = 60
TORCH_SEED = 11
INITIALIZER = fleet.initializers.Uniform(-0.3, 0.3)

# Any int64 is a key: these lie far apart, and about half are negative.
KEYS = (torch.arange(VOCABULARY) + 1) * -7046029254386353131


class Batch(NamedTuple):
    """B impressions, whose last feature is a bag of any number of ids."""

    ids: torch.Tensor  # int64 [B, SLOTS]
    bags: torch.Tensor  # int64 [n]
    offsets: torch.Tensor  # int64 [B]
    numbers: torch.Tensor  # float32 [B, NUMBERS]
    label: torch.Tensor  # float32 [B]

    def share(self, worker: int, num_workers: int) -> Batch:
        """The part of one of several workers."""
        size = len(self.label) // num_workers
        assert size * num_workers == len(self.label)
        return self.part(worker * size, (worker + 1) * size)

    def part(self, begin: int, end: int) -> Batch:
        """Some of the impressions."""
        edges = [*self.offsets.tolist(), len(self.bags)]
        first, last = edges[begin], edges[end]
        return Batch(
            self.ids[begin:end],
            self.bags[first:last],
            self.offsets[begin:end] - first,
            self.numbers[begin:end],
            self.label[begin:end],
        )


def batches(count: int = STEPS, size: int = BATCH, seed: int = 5) -> list[Batch]:
    """Batches in which some keys come many times, in every share, and others now and then."""
    random = torch.Generator().manual_seed(seed)
    popularity = 1.0 / torch.arange(1, VOCABULARY + 1)
    made = []
    for _ in range(count):
        ids = torch.multinomial(popularity, size * SLOTS, replacement=True, generator=random).view(size, SLOTS)
        lengths = torch.randint(0, 5, (size,), generator=random)
        bags = torch.multinomial(popularity, int(lengths.sum()), replacement=True, generator=random)
        numbers = torch.randn(size, NUMBERS, generator=random)
        logit = (ids % 5 - 2).sum(1) * 0.4 + numbers[:, 0] + 0.3 * (lengths - 2)
        label = (torch.rand(size, generator=random) < logit.sigmoid()).float()
        made.append(Batch(KEYS[ids], KEYS[bags], lengths.cumsum(0) - lengths, numbers, label))
    return made


def fleet_embedding(name: str, pooling: Any, **settings: Any) -> nn.Module:
    """Rows on servers."""
    return fleet.nn.Embedding(WIDTHS[name], table=name, pooling=pooling, initializer=INITIALIZER, **settings)


class CTR(nn.Module):
    """Rows of three slots, a pooled bag and four numbers through two layers."""

    def __init__(self, embedding: Callable[..., nn.Module] = fleet_embedding, **settings: Any) -> None:
        super().__init__()
        self.ids = embedding("ids", "none", **settings)
        self.bags = embedding("bags", "mean", **settings)
        width = SLOTS * WIDTHS["ids"] + WIDTHS["bags"] + NUMBERS
        self.layers = nn.Sequential(nn.Linear(width, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))

    def forward(self, batch: Batch) -> torch.Tensor:
        rows = [self.ids(batch.ids).flatten(1), self.bags(batch.bags, batch.offsets), batch.numbers]
        logits: torch.Tensor = self.layers(torch.cat(rows, dim=1)).squeeze(1)
        return logits


def loss_of(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(model(batch), batch.label)


def keys_of(batch: Batch) -> dict[str, Any]:
    """For `fleet.prefetch`."""
    return {"ids": batch.ids, "bags": (batch.bags, batch.offsets)}


RULES: dict[str, Callable[[nn.Module], Optimizer]] = {
    "sgd": lambda model: SGD(model.parameters(), lr=0.1),
    "momentum": lambda model: SGD(model.parameters(), lr=0.01, momentum=0.9),
    "adagrad": lambda model: Adagrad(model.parameters(), lr=0.01),
    "adam": lambda model: Adam(model.parameters(), lr=0.003),
}


def worst_error(found: Sequence[float], expected: Sequence[float]) -> float:
    """The largest relative difference of two curves."""
    return max(abs(one - other) / abs(other) for one, other in zip(found, expected, strict=True))
