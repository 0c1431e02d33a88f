"""Losses and the plain functions of torch that they must equal, as a table: name, feeds, layer, function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from fleet_programs import layers
from fleet_programs.program.variable import Variable
from program_support.static_ops import RNG, normal

Build = Callable[..., Any]
LOGITS = normal(6, 5)
LABELS = np.array([[0], [4], [2], [-100], [1], [2]])


def softened(shape: tuple[int, ...]) -> Any:
    """Probabilities over the last dimension."""
    weights = RNG.uniform(0.1, 1.0, shape)
    return weights / weights.sum(-1, keepdims=True)


PROBABILITY, TRUTH = RNG.uniform(0.05, 0.95, (6, 1)), RNG.integers(0, 2, (6, 1)).astype(np.float64)
SIGNS = TRUTH * 2 - 1
LEFT, RIGHT = normal(6, 1), normal(6, 1)
WEIGHTS = RNG.uniform(0.5, 2.0, (6, 5))


def _constant(value: Any) -> Variable:
    return layers.assign(value)


LOSS_CASES: list[tuple[str, dict[str, Any], Build, Build]] = [
    (
        "cross_entropy",
        {"x": softened((6, 5)), "label": LABELS},
        layers.cross_entropy,
        lambda x, label: functional.nll_loss(x.log(), label[:, 0], reduction="none").unsqueeze(1),
    ),
    (
        "cross_entropy of many",
        {"x": softened((6, 70)), "label": LABELS},
        layers.cross_entropy,
        lambda x, label: functional.nll_loss(x.log(), label[:, 0], reduction="none").unsqueeze(1),
    ),
    (
        "softmax_with_cross_entropy",
        {"x": LOGITS * 100, "label": LABELS},  # too far apart for a softmax that is not stable
        layers.softmax_with_cross_entropy,
        lambda x, label: functional.cross_entropy(x, label[:, 0], reduction="none").unsqueeze(1),
    ),
    (
        "softmax_with_cross_entropy axis",
        {"x": normal(3, 3, 2), "label": np.array([[[0, 1]], [[2, -100]], [[1, 1]]])},
        lambda x, label: layers.softmax_with_cross_entropy(x, label, axis=1),
        lambda x, label: functional.cross_entropy(x, label[:, 0], reduction="none").unsqueeze(1),
    ),
    (
        "square_error_cost",
        {"x": LEFT, "y": RIGHT},
        layers.square_error_cost,
        lambda x, y: (x - y) ** 2,
    ),
    ("mse_loss", {"x": LEFT, "y": RIGHT}, layers.mse_loss, lambda x, y: ((x - y) ** 2).mean().view(1)),
    (
        "log_loss",
        {"x": PROBABILITY},
        lambda x: layers.log_loss(x, _constant(TRUTH), 1e-3),
        lambda x: -torch.from_numpy(TRUTH) * (x + 1e-3).log() - (1 - torch.from_numpy(TRUTH)) * (1 - x + 1e-3).log(),
    ),
    (
        "huber_loss",
        {"x": LEFT, "y": RIGHT},
        lambda x, y: layers.huber_loss(x, y, 0.7),
        lambda x, y: functional.huber_loss(x, y, reduction="none", delta=0.7),
    ),
    (
        "smooth_l1",
        {"x": LOGITS, "y": LOGITS * 0.3},
        lambda x, y: layers.smooth_l1(x, y, sigma=2.0),
        lambda x, y: functional.smooth_l1_loss(x, y, reduction="none", beta=0.25).sum(1, keepdim=True),
    ),
    (
        "smooth_l1 weights",
        {"x": LOGITS, "y": LOGITS * 0.3},
        lambda x, y: layers.smooth_l1(x, y, _constant(WEIGHTS), _constant(WEIGHTS * 3)),
        lambda x, y: (
            functional.smooth_l1_loss(x * torch.from_numpy(WEIGHTS), y * torch.from_numpy(WEIGHTS), reduction="none")
            * torch.from_numpy(WEIGHTS * 3)
        ).sum(1, keepdim=True),
    ),
    (
        "rank_loss",
        {"left": LEFT, "right": RIGHT},
        lambda left, right: layers.rank_loss(_constant(TRUTH), left, right),
        lambda left, right: functional.binary_cross_entropy_with_logits(
            left - right, torch.from_numpy(TRUTH), reduction="none"
        ),
    ),
    (
        "margin_rank_loss",
        {"left": LEFT, "right": RIGHT},
        lambda left, right: layers.margin_rank_loss(_constant(SIGNS), left, right, 0.3),
        lambda left, right: functional.margin_ranking_loss(
            left, right, torch.from_numpy(SIGNS), margin=0.3, reduction="none"
        ),
    ),
    (
        "hinge_loss",
        {"x": LEFT},
        lambda x: layers.hinge_loss(x, _constant(TRUTH)),
        lambda x: (1 - torch.from_numpy(SIGNS) * x).clamp_min(0),
    ),
    (
        "bpr_loss",
        {"x": LOGITS, "label": np.array([[0], [4], [2], [1], [3], [2]])},
        layers.bpr_loss,
        lambda x, label: torch.stack(
            [
                -torch.stack([functional.logsigmoid(row[own] - row[j]) for j in range(5) if j != own]).mean()
                for row, own in zip(x, label[:, 0], strict=True)
            ]
        ).unsqueeze(1),
    ),
    (
        "cos_sim",
        {"x": LOGITS, "y": normal(6, 5)},
        layers.cos_sim,
        lambda x, y: (x * y).sum(1, keepdim=True) / x.norm(dim=1, keepdim=True) / y.norm(dim=1, keepdim=True),
    ),
    (
        "cos_sim one row",
        {"x": LOGITS, "y": normal(1, 5)},
        layers.cos_sim,
        lambda x, y: (x * y).sum(1, keepdim=True) / x.norm(dim=1, keepdim=True) / y.norm(),
    ),
]
_DIVERGENCES: dict[str, Build] = {
    "none": lambda each: each,
    "mean": lambda each: each.mean().view(1),
    "sum": lambda each: each.sum().view(1),
    "batchmean": lambda each: each.sum().view(1) / 6,
}
for _how, _of in _DIVERGENCES.items():
    LOSS_CASES.append(
        (
            f"kldiv_loss {_how}",
            {"x": np.log(softened((6, 5)))},
            lambda x, how=_how: layers.kldiv_loss(x, _constant(WEIGHTS), how),
            lambda x, of=_of: of(torch.from_numpy(WEIGHTS) * (torch.from_numpy(WEIGHTS).log() - x)),
        )
    )
