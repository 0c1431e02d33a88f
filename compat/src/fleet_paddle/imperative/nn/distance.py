"""How far apart or alike vectors are, and `Bilinear`, a product of two."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as plain_F  # noqa: N812 - ours is called F

from fleet_paddle.imperative.functions import table
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.base.of_function import FunctionLayer
from fleet_paddle.imperative.nn.base.taking import TakingLayer
from fleet_paddle.imperative.tensor import as_paddle
from fleet_paddle.variables import has_variable

__all__ = ["Bilinear", "PairwiseDistance"]


def _pairwise_distance(x: Any, y: Any, p: float = 2.0, epsilon: float = 1e-6, keepdim: bool = False) -> Any:
    if has_variable((x, y)):
        return table.norm(x - y + epsilon, p, -1, keepdim)
    return as_paddle(plain_F.pairwise_distance(x, y, p, epsilon, keepdim))


class PairwiseDistance(FunctionLayer):
    """The p-norm of x - y + epsilon along the last dimension."""

    function, inputs = staticmethod(_pairwise_distance), 2


class Bilinear(TakingLayer):
    """x1 times each of `out_features` matrices times x2, plus a bias [1, out_features]."""

    takes = "in1_features, in2_features, out_features, weight_attr=None, bias_attr=None, name"

    def make_of(self, given: Any) -> None:
        shape = [given.out_features, given.in1_features, given.in2_features]
        self.weight: Any = self.create_parameter(shape, given.weight_attr)
        self.bias: Any = self.create_parameter([1, given.out_features], given.bias_attr, is_bias=True)

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> Any:
        return F.bilinear(x1, x2, self.weight, self.bias)
