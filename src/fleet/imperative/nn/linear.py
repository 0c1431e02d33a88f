"""Layers with a weight: `Linear`, `Embedding`, `Conv2D`."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import NotSupportedError, UsageError
from fleet.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet.imperative.nn.layer import Layer
from fleet.imperative.tensor import Tensor
from fleet.static.initializer import Normal

Sizes = int | list[int] | tuple[int, ...]


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

    def forward(self, input: torch.Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.weight.shape[0]}, out_features={self.weight.shape[1]}"


class Embedding(Layer):
    """A trained row for each id. With `sparse` its gradient has only the rows of the batch."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        sparse: bool = False,
        weight_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise UsageError(
                f"Embedding: padding_idx must be from {-num_embeddings} to {num_embeddings - 1}, got {padding_idx}"
            )
        self.padding_idx = padding_idx if padding_idx is None or padding_idx >= 0 else num_embeddings + padding_idx
        self.sparse = bool(sparse)
        self.weight = _weight(self, [num_embeddings, embedding_dim], weight_attr)
        if self.padding_idx is not None:
            with torch.no_grad():
                self.weight[self.padding_idx] = 0

    def forward(self, x: torch.Tensor) -> Tensor:
        return F.embedding(x, self.weight, self.padding_idx, self.sparse)


class Conv2D(Layer):
    """A convolution of images: the filter is [out_channels, in_channels / groups, height, width]."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Any = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__()
        if padding_mode != "zeros":
            raise NotSupportedError(f"Conv2D: padding_mode must be 'zeros', got {padding_mode!r}; use functional.pad")
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise UsageError(f"Conv2D: groups must divide {in_channels} and {out_channels} channels, got {groups}")
        sides = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
        spread = (2.0 / (sides[0] * sides[1] * in_channels)) ** 0.5
        shape = [out_channels, in_channels // groups, *sides]
        self.weight = _weight(self, shape, weight_attr, Normal(0.0, spread))
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)
        self._settings = (stride, padding, dilation, groups, data_format)

    def forward(self, x: torch.Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias, *self._settings)


def _weight(layer: Layer, shape: list[int], attr: Any, default: Any = None) -> Any:
    made = layer.create_parameter(shape, attr, default_initializer=default)
    if made is None:
        raise UsageError(f"{type(layer).__name__}: weight_attr must not be False; a weight is what the layer is")
    return made
