"""Normalisation within an example: over its last dimensions, groups of channels, each channel, neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as plain_F  # noqa: N812 - ours is called F

from fleet.errors import UsageError
from fleet.static.initializer import Constant, Normal
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.layer import Layer
from fleet_paddle.imperative.nn.of_tensors import refuse_programs
from fleet_paddle.imperative.tensor import own
from fleet_paddle.rows.norm import channels_are_last, chosen_format
from fleet_paddle.rows.window import back, to_first

__all__ = [
    "GroupNorm",
    "InstanceNorm1D",
    "InstanceNorm2D",
    "InstanceNorm3D",
    "LayerNorm",
    "SpectralNorm",
]


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

    def forward(self, input: torch.Tensor) -> Any:
        return F.layer_norm(input, self._shape, self.weight, self.bias, self._epsilon)


class GroupNorm(Layer):
    """Each of `num_groups` groups of channels with mean 0 and variance 1, within an example."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        refuse_programs(self)
        super().__init__(name)
        if num_groups < 1 or num_channels % num_groups:
            raise UsageError(f"GroupNorm: num_groups must divide {num_channels} channels, got {num_groups}")
        self._settings = (num_groups, epsilon, data_format)
        self.weight = self.create_parameter([num_channels], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_channels], bias_attr, is_bias=True)

    def forward(self, input: torch.Tensor) -> Any:
        groups, epsilon, data_format = self._settings
        last = channels_are_last("GroupNorm", data_format, input.dim())
        made = plain_F.group_norm(to_first(input, last), groups, self.weight, self.bias, epsilon)
        return own(back(made, last))


class _InstanceNorm(Layer):
    """Each channel of each example with mean 0 and variance 1; nothing is kept, so `momentum` says nothing."""

    formats: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-05,
        momentum: float = 0.9,  # noqa: ARG002
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self._format = chosen_format(self, data_format, self.formats)
        self._epsilon = epsilon
        self.scale = self.create_parameter([num_features], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_features], bias_attr, is_bias=True)

    def forward(self, input: torch.Tensor) -> Any:
        return F.instance_norm(input, None, None, self.scale, self.bias, True, 0.9, self._epsilon, self._format)


class InstanceNorm1D(_InstanceNorm):
    """Instance norm of [batch, channels, length]."""

    formats = ("NCL", "NLC")


class InstanceNorm2D(_InstanceNorm):
    """Instance norm of [batch, channels, height, width]."""

    formats = ("NCHW", "NHWC")


class InstanceNorm3D(_InstanceNorm):
    """Instance norm of [batch, channels, depth, height, width]."""

    formats = ("NCDHW", "NDHWC")


class SpectralNorm(Layer):
    """Called with a weight: that divided by its greatest singular value, which each call finds better."""

    weight_u: Any
    weight_v: Any

    def __init__(
        self, weight_shape: Sequence[int], dim: int = 0, power_iters: int = 1, eps: float = 1e-12, dtype: Any = None
    ) -> None:
        refuse_programs(self)
        super().__init__(dtype=dtype)
        self._dim, self._rounds, self._eps = dim, power_iters, eps
        height = weight_shape[dim]
        for name, size in (("weight_u", height), ("weight_v", math.prod(weight_shape) // height)):
            made = self.create_parameter([size], default_initializer=Normal(0.0, 1.0))
            made.stop_gradient = True
            setattr(self, name, made)

    def forward(self, x: torch.Tensor) -> Any:
        matrix = torch.flatten(torch.movedim(x, self._dim, 0), 1)
        with torch.no_grad():
            for _ in range(self._rounds):
                self.weight_v.copy_(F.normalize(matrix.T @ self.weight_u, epsilon=self._eps))
                self.weight_u.copy_(F.normalize(matrix @ self.weight_v, epsilon=self._eps))
        # Copies: the next call changes them in place, and backward needs what they were.
        greatest = self.weight_u.clone() @ (matrix @ self.weight_v.clone())
        made: torch.Tensor = x / greatest
        return own(made)
