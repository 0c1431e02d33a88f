"""Losses as layers."""

from __future__ import annotations

import torch

from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.layer import Layer
from fleet_paddle.imperative.tensor import Tensor

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "NLLLoss",
    "SmoothL1Loss",
]


class MSELoss(Layer):
    """The squared error: its mean, its sum, or all of it."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, input: torch.Tensor, label: torch.Tensor) -> Tensor:
        return F.mse_loss(input, label, self.reduction)


class L1Loss(Layer):
    """The absolute error."""

    def __init__(self, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__(name)
        self.reduction = reduction

    def forward(self, input: torch.Tensor, label: torch.Tensor) -> Tensor:
        return F.l1_loss(input, label, self.reduction)


class SmoothL1Loss(Layer):
    """Half the squared error, from `delta` on growing no faster than the error."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0, name: str | None = None) -> None:
        super().__init__(name)
        self.reduction, self.delta = reduction, delta

    def forward(self, input: torch.Tensor, label: torch.Tensor) -> Tensor:
        return F.smooth_l1_loss(input, label, self.reduction, self.delta)


class CrossEntropyLoss(Layer):
    """-log of the probability of each label; see `functional.cross_entropy`."""

    def __init__(
        self,
        weight: torch.Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        soft_label: bool = False,
        axis: int = -1,
        use_softmax: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.weight = weight
        self._settings = (ignore_index, reduction, soft_label, axis, use_softmax)

    def forward(self, input: torch.Tensor, label: torch.Tensor) -> Tensor:
        return F.cross_entropy(input, label, self.weight, *self._settings)


class NLLLoss(Layer):
    """-input at each label, where `input` are logarithms of probabilities."""

    def __init__(
        self,
        weight: torch.Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.weight, self.ignore_index, self.reduction = weight, ignore_index, reduction

    def forward(self, input: torch.Tensor, label: torch.Tensor) -> Tensor:
        return F.nll_loss(input, label, self.weight, self.ignore_index, self.reduction)


class BCELoss(Layer):
    """The cross entropy of chances in [0, 1]."""

    def __init__(self, weight: torch.Tensor | None = None, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__(name)
        self.weight, self.reduction = weight, reduction

    def forward(self, input: torch.Tensor, label: torch.Tensor) -> Tensor:
        return F.binary_cross_entropy(input, label, self.weight, self.reduction)


class BCEWithLogitsLoss(Layer):
    """The cross entropy of sigmoid(logit)."""

    def __init__(
        self,
        weight: torch.Tensor | None = None,
        reduction: str = "mean",
        pos_weight: torch.Tensor | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.weight, self.reduction, self.pos_weight = weight, reduction, pos_weight

    def forward(self, logit: torch.Tensor, label: torch.Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(logit, label, self.weight, self.reduction, self.pos_weight)


class KLDivLoss(Layer):
    """The divergence of the label from exp(input)."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, input: torch.Tensor, label: torch.Tensor) -> Tensor:
        return F.kl_div(input, label, self.reduction)
