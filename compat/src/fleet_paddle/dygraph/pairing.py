"""Layers of version 1.8 that are a function of `fluid.layers` with parameters of their own."""

from __future__ import annotations

from typing import Any

import torch

from fleet_paddle.dygraph.layer import whole
from fleet_paddle.dygraph.weighted import Weighted
from fleet_paddle.fluid.layers import computed
from fleet_paddle.programs import layers

_bilinear_tensor_product = computed("bilinear_tensor_product", layers.bilinear_tensor_product)
_nce = computed("nce", layers.nce)


class BilinearTensorProduct(Weighted):
    """x times a matrix times y, for each of `output_dim` matrices, each [input1_dim, input2_dim]; plus a bias."""

    takes = "input1_dim, input2_dim, output_dim, name=None, act=None, param_attr=None, bias_attr=None, dtype='float32'"

    def make_of(self, given: Any) -> None:
        super().make_of(given)
        words = ("output_dim", "input1_dim", "input2_dim")
        shape = [whole("BilinearTensorProduct", word, getattr(given, word)) for word in words]
        self.weight = self.make_weight(shape, given.param_attr)
        self.bias = self.create_parameter([1, shape[0]], given.bias_attr, is_bias=True)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        bias = False if self.bias is None else self.bias
        made = _bilinear_tensor_product(x, y, self.weight.shape[0], param_attr=self.weight, bias_attr=bias)
        return self.acted(made)


class NCE(Weighted):
    """Noise-contrastive estimation, [rows, 1], of labels among many classes; see `layers.nce`.

    The weight is [num_total_classes, dim], the bias [num_total_classes, 1]. Weights of rows are given to the layer, or
    to each call.
    """

    takes = (
        "num_total_classes, dim, sample_weight=None, param_attr=None, bias_attr=None, num_neg_samples=None, "
        "sampler='uniform', custom_dist=None, seed=0, is_sparse=False, dtype='float32'"
    )

    def make_of(self, given: Any) -> None:
        super().make_of(given)
        shape = [whole("NCE", word, getattr(given, word)) for word in ("num_total_classes", "dim")]
        self.weight = self.make_weight(shape, given.param_attr)
        self.bias = self.create_parameter([shape[0], 1], given.bias_attr, is_bias=True)
        self._sample_weight = given.sample_weight
        drawn = ("num_neg_samples", "sampler", "custom_dist", "seed", "is_sparse")
        self._settings = {word: getattr(given, word) for word in drawn}

    def forward(self, input: torch.Tensor, label: torch.Tensor, sample_weight: torch.Tensor | None = None) -> Any:
        weights = self._sample_weight if sample_weight is None else sample_weight
        bias = False if self.bias is None else self.bias
        given = {} if weights is None else {"sample_weight": weights}
        return _nce(
            input, label, self.weight.shape[0], param_attr=self.weight, bias_attr=bias, **given, **self._settings
        )
