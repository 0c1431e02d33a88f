"""Layers that several models share. Legend: B samples, F fields, D width of a row, W width of a vector.

None of them but `Dice` looks at more than one sample, as batch norm does: with W workers in sync mode, W equal parts of
a batch give the gradient of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from fleet.errors import UsageError
from fleet.ps.job.checks import checked
from fleet.strategy.check import Finite, Many, Whole


def mlp(width: int, hidden: Sequence[int], out: int | None = None, *, dropout: float = 0.0) -> nn.Sequential:
    """Linear layers with ReLU (and dropout) behind each of `hidden`; then, if `out` is given, a last one without."""
    hidden = checked("the model", "hidden", hidden, Many(Whole(least=1)))
    dropout = checked("the model", "dropout", dropout, Finite(least=0, below=1))
    parts: list[nn.Module] = []
    for before, after in pairwise([width, *hidden]):
        parts += [nn.Linear(before, after), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
    if out is not None:
        parts.append(nn.Linear([width, *hidden][-1], out))
    return nn.Sequential(*parts)


class NumberFields(nn.Module):
    """Numbers [B, n] as fields [B, n, D]: each times a vector of its own, so that interactions see them."""

    def __init__(self, num_dense: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_dense, dim).uniform_(-0.01, 0.01))

    def forward(self, dense: torch.Tensor) -> torch.Tensor:
        return dense.unsqueeze(2) * self.weight


def sum_of_pairs(fields: torch.Tensor) -> torch.Tensor:
    """A factorisation machine's second order: dot products of all pairs of fields [B, F, D], summed to [B]."""
    return 0.5 * (fields.sum(1).square() - fields.square().sum(1)).sum(1)


def pairs(fields: torch.Tensor) -> torch.Tensor:
    """The dot product of every pair of fields [B, F, D], side by side: [B, F * (F - 1) / 2]."""
    products = torch.bmm(fields, fields.transpose(1, 2))
    above, below = torch.tril_indices(fields.shape[1], fields.shape[1], -1, device=fields.device)
    return products[:, above, below]


class Cross(nn.Module):
    """A layer of DCNv2: `x0 * (W x + b) + x`, which raises the degree of the polynomial in `x0` by one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, start: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        crossed: torch.Tensor = start * self.linear(x) + x
        return crossed


class LowRankCross(nn.Module):
    """The same with a sum of matrices of `rank`, each inside a tanh and weighted by a gate: DCN-Mix."""

    def __init__(self, width: int, rank: int, num_experts: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(width, rank, bias=False) for _ in range(num_experts))
        self.core = nn.ModuleList(nn.Linear(rank, rank, bias=False) for _ in range(num_experts))
        self.up = nn.ModuleList(nn.Linear(rank, width) for _ in range(num_experts))
        self.gate = Gate(width, num_experts)

    def forward(self, start: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        experts = [
            up(torch.tanh(core(torch.tanh(down(x)))))
            for down, core, up in zip(self.down, self.core, self.up, strict=True)
        ]
        crossed: torch.Tensor = start * self.gate(x, torch.stack(experts, dim=1)) + x
        return crossed


class CrossNetwork(nn.Module):
    """`num_layers` of `Cross` one after the other or, if `rank` is given, of `LowRankCross`."""

    def __init__(self, width: int, num_layers: int, rank: int | None = None, num_experts: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            Cross(width) if rank is None else LowRankCross(width, rank, num_experts) for _ in range(num_layers)
        )

    def forward(self, start: torch.Tensor) -> torch.Tensor:
        x = start
        for layer in self.layers:
            x = layer(start, x)
        return x


class CIN(nn.Module):
    """The compressed interaction network of xDeepFM: [B, F, D] -> [B, sum(maps)].

    Each layer takes the element-wise products of all pairs (a map of the layer before, a field), and mixes them to
    `maps` new ones. What comes out is the sum of each map over D.
    """

    def __init__(self, num_fields: int, maps: Sequence[int]) -> None:
        super().__init__()
        widths = checked("the model", "maps", maps, Many(Whole(least=1)))
        self.layers = nn.ModuleList()
        for before, after in pairwise([num_fields, *widths]):
            layer = nn.Linear(before, after * num_fields, bias=False)
            bound = (before * num_fields) ** -0.5  # a map is a sum over that many products
            nn.init.uniform_(layer.weight, -bound, bound)
            self.layers.append(layer)
        self.width = sum(widths)

    def forward(self, fields: torch.Tensor) -> torch.Tensor:
        fields = fields.transpose(1, 2).contiguous()  # [B, D, F]
        x, sums = fields, []
        for layer in self.layers:
            # [B, D, maps, F]; the pairs themselves are never in memory
            mixed = layer(x).unflatten(2, (-1, fields.shape[2]))
            x = (mixed @ fields.unsqueeze(3)).squeeze(3)  # [B, D, maps]
            sums.append(x.sum(1))
        return torch.cat(sums, dim=1)


class Gate(nn.Module):
    """A mean of experts [B, E, W], weighted by what a vector [B, V] says: its softmax, which sums to 1."""

    def __init__(self, width: int, num_experts: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, num_experts)

    def weights(self, x: torch.Tensor) -> torch.Tensor:
        """How much each expert counts: [B, E]."""
        return torch.softmax(self.linear(x), dim=1)

    def forward(self, x: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
        return torch.einsum("be,bew->bw", self.weights(x), experts)


class Experts(nn.Module):
    """`num_experts` small networks over the same vector [B, V]: [B, E, W]."""

    def __init__(self, width: int, hidden: Sequence[int], num_experts: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        num_experts = checked("the model", "num_experts", num_experts, Whole(least=1))
        self.experts = nn.ModuleList(mlp(width, hidden, dropout=dropout) for _ in range(num_experts))
        self.width = [width, *hidden][-1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([expert(x) for expert in self.experts], dim=1)


class Dice(nn.Module):
    """For DIN and DIEN: x [B, width] where it is large for the batch, alpha * x where small, and smoothly between."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width, affine=False)
        self.alpha = nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        share = torch.sigmoid(self.norm(x))
        return x * (share + self.alpha * (1 - share))


def bent_mlp(width: int, hidden: Sequence[int], activation: str, dropout: float = 0.0) -> nn.Sequential:
    """Linear layers with "dice" or "prelu" behind each of `hidden`, and a last one that gives a logit."""
    if activation not in ("dice", "prelu"):
        raise UsageError(f'activation must be "dice" or "prelu", got {activation!r}')
    parts: list[nn.Module] = []
    for before, after in pairwise([width, *hidden]):
        parts += [nn.Linear(before, after), Dice(after) if activation == "dice" else nn.PReLU(after)]
        parts += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*parts, nn.Linear([width, *hidden][-1], 1))
