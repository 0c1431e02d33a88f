"""How far apart or alike vectors are, and `Bilinear`, a product of two."""

from __future__ import annotations

from typing import Any

import torch

from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.functional.vectors import pairwise_distance
from fleet_paddle.imperative.nn.layer import Layer
from fleet_paddle.imperative.nn.of_function import FunctionLayer
from fleet_paddle.imperative.tensor import Tensor

__all__ = ["Bilinear", "CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(FunctionLayer):
    """The cosine of the angle between vectors."""

    function, inputs = staticmethod(F.cosine_similarity), 2


class PairwiseDistance(FunctionLayer):
    """The p-norm of x - y + epsilon along the last dimension."""

    function, inputs = staticmethod(pairwise_distance), 2


class Bilinear(Layer):
    """x1 times each of `out_features` matrices times x2, plus a bias [1, out_features]."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.weight: Any = self.create_parameter([out_features, in1_features, in2_features], weight_attr)
        self.bias: Any = self.create_parameter([1, out_features], bias_attr, is_bias=True)

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> Tensor:
        return F.bilinear(x1, x2, self.weight, self.bias)
