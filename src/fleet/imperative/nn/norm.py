"""Normalisation: over a batch, and within an example."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import nn

from fleet.errors import NotSupportedError, UsageError
from fleet.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet.imperative.nn.layer import Layer
from fleet.imperative.place import current
from fleet.imperative.tensor import Tensor
from fleet.static.initializer import Constant


class _BatchNorm(Layer):
    """torch's batch norm. `momentum` of the old statistics is kept, the rest is the batch's.

    The variance that is kept is torch's, of a sample; in the state its names are `running_mean` and `running_var`.
    """

    weight: Any
    bias: Any
    formats: ClassVar[tuple[str, ...]] = ("NCHW",)

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str | None = None,
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        # torch's own comes next in line, and takes the number of features where a Layer takes its name.
        nn.modules.batchnorm._BatchNorm.__init__(self, num_features, epsilon, 1 - momentum, device=current())  # type: ignore[arg-type]
        self.name_it(name)
        if use_global_stats:
            raise NotSupportedError("use_global_stats must be left out; call eval() on the layer")
        if data_format is not None and data_format not in self.formats:
            raise NotSupportedError(
                f"data_format must be {self.formats[0]!r}, got {data_format!r}; transpose the input"
            )
        self.weight = self.create_parameter([num_features], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_features], bias_attr, is_bias=True)


class BatchNorm1D(_BatchNorm, nn.BatchNorm1d):
    """Batch norm of [batch, features] or [batch, features, length]."""

    formats = ("NCL", "NC")


class BatchNorm2D(_BatchNorm, nn.BatchNorm2d):
    """Batch norm of images, [batch, channels, height, width]."""


class LayerNorm(Layer):
    """Each example with mean 0 and variance 1 over the last dimensions."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self._shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        if not self._shape or math.prod(self._shape) < 1:
            raise UsageError(f"LayerNorm: normalized_shape must be sizes above 0, got {normalized_shape!r}")
        self._epsilon = epsilon
        self.weight = self.create_parameter(self._shape, weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(self._shape, bias_attr, is_bias=True)

    def forward(self, input: torch.Tensor) -> Tensor:
        return F.layer_norm(input, self._shape, self.weight, self.bias, self._epsilon)
