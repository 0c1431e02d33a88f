"""Layers with a weight: `Linear`, `Embedding`."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from fleet.errors import UsageError
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.layer import Layer

__all__ = ["Embedding", "Linear"]


class Linear(Layer):
    """x times weight plus bias; the weight is [in_features, out_features]."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.weight = _weight(self, [in_features, out_features], weight_attr)
        self.bias = self.create_parameter([out_features], bias_attr, is_bias=True)

    def forward(self, input: torch.Tensor) -> Any:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.weight.shape[0]}, out_features={self.weight.shape[1]}"


class Embedding(Layer, nn.Embedding):
    """A trained row for each id. With `sparse` its gradient has only the rows of the batch.

    It is one of torch's too: by that DistributedDataParallel and others know whose gradients are sparse.
    """

    weight: Any

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        sparse: bool = False,
        weight_attr: Any = None,
        name: str | None = None,
        *,
        dtype: Any = None,
    ) -> None:
        nn.Module.__init__(self)  # torch's embedding would make a weight of its own
        self.name_it(name, dtype)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise UsageError(
                f"Embedding: padding_idx must be from {-num_embeddings} to {num_embeddings - 1}, got {padding_idx}"
            )
        self.padding_idx = padding_idx if padding_idx is None or padding_idx >= 0 else num_embeddings + padding_idx
        self.num_embeddings, self.embedding_dim, self.sparse = num_embeddings, embedding_dim, bool(sparse)
        self.weight = _weight(self, [num_embeddings, embedding_dim], weight_attr)
        if self.padding_idx is not None and isinstance(self.weight, torch.Tensor):  # a program reads it as zeros
            with torch.no_grad():
                self.weight[self.padding_idx] = 0

    def forward(self, x: torch.Tensor) -> Any:
        return F.embedding(x, self.weight, self.padding_idx, self.sparse)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, padding_idx={self.padding_idx}, sparse={self.sparse}"


def _weight(layer: Layer, shape: list[int], attr: Any) -> Any:
    made = layer.create_parameter(shape, attr)
    if made is None:
        raise UsageError(f"{type(layer).__name__}: weight_attr must not be False; a weight is what the layer is")
    return made
