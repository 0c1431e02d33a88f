"""Normalisation within an example: over its last dimensions, groups of channels, each channel, neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as plain_F  # noqa: N812 - ours is called F

from fleet.errors import UsageError
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.base.layer import Layer
from fleet_paddle.imperative.nn.base.taking import TakingLayer
from fleet_paddle.imperative.tensor import as_paddle
from fleet_paddle.programs.networks.spectral import add_spectral_norm
from fleet_paddle.rows.networks.norm import channels_are_last, chosen_format, norm_of_channels
from fleet_paddle.rows.window import back, to_first
from fleet_programs.parameters.initializer import Constant, Normal
from fleet_programs.program.variable import Variable

__all__ = [
    "GroupNorm",
    "InstanceNorm1D",
    "InstanceNorm2D",
    "InstanceNorm3D",
    "LayerNorm",
    "SpectralNorm",
]


def trained(layer: Layer, shape: list[int], given: Any) -> tuple[Any, Any]:
    """What a norm trains: a factor, which begins with ones, and a bias."""
    factor = layer.create_parameter(shape, given.weight_attr, default_initializer=Constant(1.0))
    return factor, layer.create_parameter(shape, given.bias_attr, is_bias=True)


def shape_of(normalized: int | Sequence[int]) -> list[int]:
    """The last dimensions that a layer norm is over."""
    shape = [normalized] if isinstance(normalized, int) else list(normalized)
    if not shape or math.prod(shape) < 1:
        raise UsageError(f"LayerNorm: normalized_shape must be sizes above 0, got {normalized!r}")
    return shape


class LayerNorm(TakingLayer):
    """Each example with mean 0 and variance 1 over the last dimensions."""

    takes = "normalized_shape, epsilon=1e-05, weight_attr=None, bias_attr=None, name"

    def make_of(self, given: Any) -> None:
        self._shape, self._epsilon = shape_of(given.normalized_shape), given.epsilon
        self.weight, self.bias = trained(self, self._shape, given)

    def forward(self, input: torch.Tensor) -> Any:
        return F.layer_norm(input, self._shape, self.weight, self.bias, self._epsilon)


class GroupNorm(TakingLayer):
    """Each of `num_groups` groups of channels with mean 0 and variance 1, within an example."""

    takes = "num_groups, num_channels, epsilon=1e-05, weight_attr=None, bias_attr=None, data_format='NCHW', name"

    def make_of(self, given: Any) -> None:
        groups, channels = given.num_groups, given.num_channels
        if groups < 1 or channels % groups:
            raise UsageError(f"GroupNorm: num_groups must divide {channels} channels, got {groups}")
        self._settings = (groups, given.epsilon, given.data_format)
        self.weight, self.bias = trained(self, [channels], given)

    def forward(self, input: torch.Tensor) -> Any:
        groups, epsilon, data_format = self._settings
        if isinstance(input, Variable):
            return norm_of_channels("group_norm", input, self.weight, self.bias, epsilon, data_format, groups)
        last = channels_are_last("GroupNorm", data_format, input.dim())
        # torch's gradient of the weight alone breaks down where channels lie last in memory
        image = to_first(input, last).contiguous()
        made = plain_F.group_norm(image, groups, self.weight, self.bias, epsilon)
        return as_paddle(back(made, last))


class _InstanceNorm(TakingLayer):
    """Each channel of each example with mean 0 and variance 1; nothing is kept, so `momentum` says nothing."""

    formats: ClassVar[tuple[str, ...]]
    takes = "num_features, epsilon=1e-05, momentum=0.9, weight_attr=None, bias_attr=None, data_format=None, name"

    def make_of(self, given: Any) -> None:
        self._format, self._epsilon = chosen_format(self, given.data_format, self.formats), given.epsilon
        self.scale, self.bias = trained(self, [given.num_features], given)

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


class SpectralNorm(TakingLayer):
    """Called with a weight: that divided by its greatest singular value, which each call finds better."""

    weight_u: Any
    weight_v: Any
    takes = "weight_shape, dim=0, power_iters=1, eps=1e-12, dtype=None"

    def make_of(self, given: Any) -> None:
        self._dim, self._rounds, self._eps = given.dim, given.power_iters, given.eps
        height = given.weight_shape[given.dim]
        for name, size in (("weight_u", height), ("weight_v", math.prod(given.weight_shape) // height)):
            made = self.create_parameter([size], default_initializer=Normal(0.0, 1.0))
            made.stop_gradient = True
            setattr(self, name, made)

    def forward(self, x: torch.Tensor) -> Any:
        if isinstance(x, Variable):
            return add_spectral_norm(x, self.weight_u, self.weight_v, self._dim, self._rounds, self._eps)
        matrix = torch.flatten(torch.movedim(x, self._dim, 0), 1)
        with torch.no_grad():
            for _ in range(self._rounds):
                self.weight_v.copy_(F.normalize(matrix.T @ self.weight_u, epsilon=self._eps))
                self.weight_u.copy_(F.normalize(matrix @ self.weight_v, epsilon=self._eps))
        # Copies: the next call changes them in place, and backward needs what they were.
        greatest = self.weight_u.clone() @ (matrix @ self.weight_v.clone())
        made: torch.Tensor = x / greatest
        return as_paddle(made)
