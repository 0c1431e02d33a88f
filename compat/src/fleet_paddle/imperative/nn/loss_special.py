"""Losses of special tasks as layers."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.base.layer import Layer
from fleet_paddle.imperative.nn.base.taking import TakingLayer

__all__ = ["CTCLoss", "HSigmoidLoss"]


class CTCLoss(Layer):
    """-log of the probability that scores [time, batch, classes] spell the labels; see `functional.ctc_loss`."""

    def __init__(self, blank: int = 0, reduction: str = "mean") -> None:
        super().__init__()
        self.blank, self.reduction = blank, reduction

    def forward(
        self,
        log_probs: torch.Tensor,
        labels: torch.Tensor,
        input_lengths: torch.Tensor,
        label_lengths: torch.Tensor,
        norm_by_times: bool = False,
    ) -> Any:
        given = (log_probs, labels, input_lengths, label_lengths)
        return F.ctc_loss(*given, self.blank, self.reduction, norm_by_times)


class HSigmoidLoss(TakingLayer):
    """The cross entropy of every decision on the way to a class in a binary tree; see `functional.hsigmoid_loss`.

    With `is_custom` the ways are given at each call, and the tree may have `num_classes` inner nodes.
    """

    takes = "feature_size, num_classes, weight_attr=None, bias_attr=None, is_custom=False, is_sparse=False, name"

    def make_of(self, given: Any) -> None:
        num_classes = given.num_classes
        if num_classes < 2:
            raise UsageError(f"HSigmoidLoss: num_classes must be at least 2, got {num_classes}")
        self._num_classes, self._is_custom, self._is_sparse = num_classes, given.is_custom, given.is_sparse
        nodes = num_classes if given.is_custom else num_classes - 1
        self.weight: Any = self.create_parameter([nodes, given.feature_size], given.weight_attr)
        self.bias: Any = self.create_parameter([nodes, 1], given.bias_attr, is_bias=True)

    def forward(self, input: torch.Tensor, label: torch.Tensor, path_table: Any = None, path_code: Any = None) -> Any:
        if self._is_custom != (path_table is not None):
            raise UsageError("HSigmoidLoss: path_table and path_code are given with is_custom=True, and only then")
        given = (input, label, self._num_classes, self.weight, self.bias)
        return F.hsigmoid_loss(*given, path_table, path_code, self._is_sparse)
