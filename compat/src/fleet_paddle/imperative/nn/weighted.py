"""Layers with a weight: `Linear`, `Embedding`."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from fleet.errors import UsageError
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.base.layer import Layer
from fleet_paddle.imperative.nn.base.taking import TakingLayer

__all__ = ["Embedding", "Linear"]


class Linear(TakingLayer):
    """x times weight plus bias; the weight is [in_features, out_features]."""

    takes = "in_features, out_features, weight_attr=None, bias_attr=None, name"

    def make_of(self, given: Any) -> None:
        self.weight = _weight(self, [given.in_features, given.out_features], given.weight_attr)
        self.bias = self.create_parameter([given.out_features], given.bias_attr, is_bias=True)

    def forward(self, input: torch.Tensor) -> Any:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.weight.shape[0]}, out_features={self.weight.shape[1]}"


class Embedding(TakingLayer, nn.Embedding):
    """A trained row for each id. With `sparse` its gradient has only the rows of the batch.

    It is one of torch's too: by that DistributedDataParallel and others know whose gradients are sparse.
    """

    weight: Any
    takes = "num_embeddings, embedding_dim, padding_idx=None, sparse=False, weight_attr=None, name"

    def begin(self, name: str | None, dtype: Any) -> None:
        nn.Module.__init__(self)  # torch's embedding would make a weight of its own
        self.name_it(name, dtype)

    def make_of(self, given: Any) -> None:
        rows, padding = given.num_embeddings, given.padding_idx
        if padding is not None and not -rows <= padding < rows:
            raise UsageError(f"Embedding: padding_idx must be from {-rows} to {rows - 1}, got {padding}")
        self.padding_idx = padding if padding is None or padding >= 0 else rows + padding
        self.num_embeddings, self.embedding_dim, self.sparse = rows, given.embedding_dim, bool(given.sparse)
        self.weight = _weight(self, [rows, self.embedding_dim], given.weight_attr)
        if self.padding_idx is not None and isinstance(self.weight, torch.Tensor):  # a program reads it as zeros
            with torch.no_grad():
                self.weight[self.padding_idx] = 0

    def forward(self, x: torch.Tensor) -> Any:
        return F.embedding(x, self.weight, self.padding_idx, self.sparse)

    @property
    def _num_embeddings(self) -> int:
        """Under the name that libraries take of PaddlePaddle's own."""
        return self.num_embeddings

    @property
    def _embedding_dim(self) -> int:
        """Under the name that libraries take of PaddlePaddle's own."""
        return self.embedding_dim

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, padding_idx={self.padding_idx}, sparse={self.sparse}"


def _weight(layer: Layer, shape: list[int], attr: Any) -> Any:
    made = layer.create_parameter(shape, attr)
    if made is None:
        raise UsageError(f"{type(layer).__name__}: weight_attr must not be False; a weight is what the layer is")
    return made
