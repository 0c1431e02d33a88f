"""Normalisation, as version 1.8 spells it: over a batch, and within an example."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from fleet.errors import UsageError
from fleet.static import layers
from fleet.static.initializer import Constant
from fleet_paddle.dygraph.layer import Layer, activation, whole
from fleet_paddle.fluid.layers import computed
from fleet_paddle.imperative import nn
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it

_ARGUMENTS = inspect.signature(nn.BatchNorm.__init__)
_group_norm = computed("group_norm", layers.group_norm)
_instance_norm = computed("instance_norm", layers.instance_norm)


class BatchNorm(Layer, nn.BatchNorm):
    """`nn.BatchNorm`, whose arguments these are; `is_test` and `in_place` say nothing here, the layer's mode does.

    `momentum` of the old mean and variance are kept, the rest is the batch's; in evaluation, or with
    `use_global_stats`, they are what is used, unless `trainable_statistics`. Their names are `_mean` and `_variance`.
    """

    def __init__(self, num_channels: int, *settings: Any, **named: Any) -> None:
        given = _ARGUMENTS.bind(self, whole("BatchNorm", "num_channels", num_channels), *settings, **named).arguments
        if False in (given.get("param_attr"), given.get("bias_attr")):
            raise UsageError("BatchNorm: param_attr and bias_attr must not be False")
        act = activation("BatchNorm", given.pop("act", None))
        nn.BatchNorm.__init__(**given | {"is_test": False, "in_place": False})
        self._act = act


class LayerNorm(Layer):
    """Each example with mean 0 and variance 1 over the last dimensions; `scale` and `shift` say what is trained."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        scale: bool = True,
        shift: bool = True,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype=dtype)
        self._shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        if not self._shape or prod(self._shape) < 1:
            raise UsageError(f"LayerNorm: normalized_shape must be sizes above 0, got {normalized_shape!r}")
        self._epsilon, self._act = epsilon, activation("LayerNorm", act)
        size = [prod(self._shape)]
        self.weight = self.create_parameter(size, param_attr if scale else False, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(size, bias_attr if shift else False, is_bias=True)

    def forward(self, input: torch.Tensor) -> Any:
        weight, bias = self.weight, self.bias
        if len(self._shape) > 1:
            weight, bias = (None if one is None else one.view(self._shape) for one in (weight, bias))
        made = F.layer_norm(input, self._shape, weight, bias, self._epsilon)
        return made if self._act is None else self._act(made)


class GroupNorm(Layer):
    """Groups of channels of each example with mean 0 and variance 1, then times a scale, plus a bias."""

    def __init__(
        self,
        channels: int,
        groups: int,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        data_layout: str = "NCHW",
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype=dtype)
        shape = [whole("GroupNorm", "channels", channels)]
        self._act = activation("GroupNorm", act)
        self.weight = self.create_parameter(shape, param_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(shape, bias_attr, is_bias=True)
        self._settings = {"groups": groups, "epsilon": epsilon, "data_layout": data_layout}

    def forward(self, input: torch.Tensor) -> Any:
        made = _group_norm(input, param_attr=_or_false(self.weight), bias_attr=_or_false(self.bias), **self._settings)
        return made if self._act is None else self._act(made)


class InstanceNorm(Layer):
    """Each channel of each example with mean 0 and variance 1, then times a scale, plus a bias."""

    def __init__(
        self,
        num_channels: int,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype=dtype)
        shape = [whole("InstanceNorm", "num_channels", num_channels)]
        self._epsilon = epsilon
        self.scale = self.create_parameter(shape, param_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(shape, bias_attr, is_bias=True)

    def forward(self, input: torch.Tensor) -> Any:
        attrs = {"param_attr": _or_false(self.scale), "bias_attr": _or_false(self.bias)}
        return _instance_norm(input, self._epsilon, **attrs)


def _or_false(parameter: Any) -> Any:
    return False if parameter is None else parameter
