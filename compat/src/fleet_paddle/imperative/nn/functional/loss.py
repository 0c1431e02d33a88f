"""Losses as functions: of what a model says and what is right."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import UsageError
from fleet_paddle.imperative.tensor import Tensor, own


def reduced(loss: torch.Tensor, reduction: str) -> Tensor:
    """The mean, the sum, or all of them."""
    _check(reduction)
    return own(loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum())


def square_error_cost(input: torch.Tensor, label: torch.Tensor) -> Tensor:
    """(input - label) squared, element by element."""
    return own(torch.square(input - label))


def mse_loss(input: torch.Tensor, label: torch.Tensor, reduction: str = "mean", name: str | None = None) -> Tensor:
    """The squared error."""
    _check(reduction)
    return own(F.mse_loss(input, _like(input, label), reduction=reduction))


def l1_loss(input: torch.Tensor, label: torch.Tensor, reduction: str = "mean", name: str | None = None) -> Tensor:
    """The absolute error."""
    _check(reduction)
    return own(F.l1_loss(input, _like(input, label), reduction=reduction))


def smooth_l1_loss(
    input: torch.Tensor,
    label: torch.Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """Half the squared error, from `delta` on growing no faster than the error."""
    _check(reduction)
    return own(F.huber_loss(input, label, reduction=reduction, delta=delta))


def cross_entropy(
    input: torch.Tensor,
    label: torch.Tensor,
    weight: torch.Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    name: str | None = None,
) -> Tensor:
    """-log of the probability of each label, where `input` are scores, or probabilities without `use_softmax`.

    A label may have a last size of 1. With `soft_label` it is a distribution over the classes. Without a reduction the
    losses have the label's shape. The mean over labels that are all ignored is 0.
    """
    _check(reduction)
    scores = torch.log_softmax(input, axis) if use_softmax else torch.log(input)
    scores = scores.movedim(axis, 1) if scores.dim() > 1 else scores
    if soft_label:
        target = label.movedim(axis, 1) if label.dim() > 1 else label
        if weight is not None:
            target = target * weight.view(-1, *[1] * (target.dim() - 2))
        return reduced(-(target * scores).sum(min(1, scores.dim() - 1)), reduction)
    has_last = label.dim() == input.dim() and label.size(axis) == 1
    hard = label.squeeze(axis) if has_last else label
    made = F.nll_loss(scores, hard.long(), weight, ignore_index=ignore_index, reduction=reduction)
    if reduction == "mean" and (made.is_cuda or bool(torch.isnan(made))):  # looking would stop the GPU
        made = torch.where((hard == ignore_index).all(), made.new_zeros(()), made)
    return own(made.unsqueeze(axis) if has_last and reduction == "none" else made)


def softmax_with_cross_entropy(
    logits: torch.Tensor,
    label: torch.Tensor,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any:
    """The cross entropy of each row, of shape [rows, 1]; with `return_softmax` the probabilities too."""
    loss = cross_entropy(logits, label, None, ignore_index, "none", soft_label, axis)
    loss = own(loss if loss.dim() == logits.dim() else loss.unsqueeze(axis))
    return (loss, own(torch.softmax(logits, axis))) if return_softmax else loss


def nll_loss(
    input: torch.Tensor,
    label: torch.Tensor,
    weight: torch.Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """-input at each label, where `input` are logarithms of probabilities."""
    _check(reduction)
    return own(F.nll_loss(input, label.long(), weight, ignore_index=ignore_index, reduction=reduction))


def binary_cross_entropy(
    input: torch.Tensor,
    label: torch.Tensor,
    weight: torch.Tensor | None = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """The cross entropy of chances in [0, 1]."""
    _check(reduction)
    return own(F.binary_cross_entropy(input, label, weight, reduction=reduction))


def binary_cross_entropy_with_logits(
    logit: torch.Tensor,
    label: torch.Tensor,
    weight: torch.Tensor | None = None,
    reduction: str = "mean",
    pos_weight: torch.Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """The cross entropy of sigmoid(logit)."""
    _check(reduction)
    made = F.binary_cross_entropy_with_logits(logit, label, weight, reduction=reduction, pos_weight=pos_weight)
    return own(made)


def kl_div(input: torch.Tensor, label: torch.Tensor, reduction: str = "mean", name: str | None = None) -> Tensor:
    """The divergence of `label` from exp(input); reduction mean, sum, none or batchmean."""
    _check(reduction, "batchmean")
    if reduction == "mean":
        return own(F.kl_div(input, label, reduction="none").mean())
    return own(F.kl_div(input, label, reduction=reduction))


def _check(reduction: str, *also: str) -> None:
    known = ("mean", "sum", *also, "none")
    if reduction not in known:
        raise UsageError(f"reduction must be {', '.join(known[:-1])} or none, got {reduction!r}")


def _like(input: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """Labels of another shape are spread as arithmetic would; torch warns of it, and a user here means it."""
    return label if label.shape == input.shape else label.expand_as(input)
