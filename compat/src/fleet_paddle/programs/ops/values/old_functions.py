"""Operators of functions that 1.x has under names of its own."""

from __future__ import annotations

import torch

from fleet.errors import UsageError
from fleet_paddle.programs.variables.computed import computed

T = torch.Tensor


@computed("triu", attrs={"diagonal": 0})
def _triu(x: T, diagonal: int) -> T:
    """What is on and above a diagonal, zeros below."""
    return torch.triu(x, diagonal)


@computed("add_position_encoding", attrs={"alpha": 1.0, "beta": 1.0})
def _places(x: T, alpha: float, beta: float) -> T:
    """alpha * x + beta * sines, then cosines, of each place."""
    if x.dim() != 3 or x.shape[2] % 2:
        raise UsageError(f"X must be [batch, places, an even width], got shape {list(x.shape)}")
    half = x.shape[2] // 2
    rates = 10000.0 ** (torch.arange(half, dtype=x.dtype, device=x.device) / (half - 1 if half > 1 else 1.0))
    places = torch.arange(x.shape[1], dtype=x.dtype, device=x.device).unsqueeze(1)
    turns = places / (rates if half > 1 else 10000.0)
    waves = torch.cat([torch.sin(turns), torch.cos(turns)], 1)
    return x * alpha + waves * beta


@computed(
    "mean_iou",
    attrs={"num_classes": 2},
    inputs=("Predictions", "Labels"),
    outputs=("OutMeanIou", "OutWrong", "OutCorrect"),
    wrt=(),
)
def _mean_iou(guess: T, label: T, num_classes: int) -> tuple[T, T, T]:
    """How much guesses and labels of classes overlap: the mean, the wrong ones of each class, the right ones."""
    first, second = (
        torch.reshape(one, (-1, 1)) == torch.arange(num_classes, device=one.device) for one in (guess, label)
    )
    right = (first & second).sum(0)
    wrong = first.sum(0) + second.sum(0) - 2 * right
    union = right + wrong
    shares = torch.where(union > 0, right / torch.clamp(union, 1), 0.0)
    mean = shares.sum() / torch.clamp((union > 0).sum(), 1)
    return mean.float(), wrong.to(torch.int32), right.to(torch.int32)
