"""FinalNet (Zhu et al., SIGIR 2023): layers that multiply as well as add, in two streams that teach each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from fleet.models.parts.base import BatchLike, Outputs, log_loss
from fleet.models.parts.features import Tabular
from fleet.models.parts.layers import NumberFields, mlp


class Factorized(nn.Module):
    """A FINAL layer: `a * (1 + b)` of two linear layers, so that each one doubles the order of the interactions."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 2 * out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        both: torch.Tensor = self.linear(x)
        a, b = both.chunk(2, dim=1)
        return a * (1 + b)


class FieldGate(nn.Module):
    """Fields [B, F, D], and behind them each times a mix of all: [B, 2 F, D]."""

    def __init__(self, num_fields: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_fields, num_fields)

    def forward(self, fields: torch.Tensor) -> torch.Tensor:
        gates = self.linear(fields.transpose(1, 2)).transpose(1, 2)
        return torch.cat([fields, fields * gates], dim=1)


class FinalNet(Tabular):
    """Two streams of FINAL layers with `hidden` widths, the first behind a gate; every number is a field too.

    `forward` gives the logits of both, [B, 2]. The model's is their mean, and the loss is its log loss plus those of
    each stream with the probability of the mean as target. The published one has batch norm; this one has none.
    """

    def build(self, hidden: Sequence[int], dropout: float) -> None:
        num_fields = self.features.num_dense + self.features.num_fields
        self.numbers = NumberFields(self.features.num_dense, self.dim)
        self.gate = FieldGate(num_fields)
        self.gated = factorized(2 * num_fields * self.dim, hidden, dropout)
        self.direct = factorized(num_fields * self.dim, hidden, dropout)

    def forward(self, batch: BatchLike) -> Outputs:
        dense, rows = self.features(batch)
        fields = torch.cat([self.numbers(dense), rows], dim=1)
        return torch.cat([self.gated(self.gate(fields).flatten(1)), self.direct(fields.flatten(1))], dim=1)

    def loss(self, outputs: Outputs, batch: BatchLike) -> torch.Tensor:
        """The log loss of the mean, and of each stream against it."""
        mean = outputs.mean(1)
        target = torch.sigmoid(mean.detach()).unsqueeze(1).expand_as(outputs)
        return log_loss(mean, batch) + log_loss(outputs, batch, target)

    def scores(self, outputs: Outputs) -> torch.Tensor:
        """Probabilities, of the mean of both streams."""
        return torch.sigmoid(outputs.mean(1))


def factorized(width: int, hidden: Sequence[int], dropout: float) -> nn.Sequential:
    """FINAL layers with ReLU (and dropout) behind each, and a logit at the end."""
    parts: list[nn.Module] = []
    for before, after in pairwise([width, *hidden]):
        parts += [Factorized(before, after), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
    return nn.Sequential(*parts, *mlp([width, *hidden][-1], (), 1))
