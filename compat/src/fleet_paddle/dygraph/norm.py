"""Normalisation, as version 1.8 spells it: over a batch, and within an example."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.dygraph.layer import ActingLayer, Layer, activation, whole
from fleet_paddle.fluid.layers import computed
from fleet_paddle.imperative import nn
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.base.taking import TakingLayer
from fleet_paddle.imperative.nn.norms.norm import shape_of, trained
from fleet_programs import layers

_group_norm = computed("group_norm", layers.group_norm)
_instance_norm = computed("instance_norm", layers.instance_norm)
_TRAINED = "epsilon=1e-05, param_attr->weight_attr=None, bias_attr=None"


class BatchNorm(nn.BatchNorm, Layer):
    """`nn.BatchNorm`, whose arguments these are; `is_test` and `in_place` say nothing here, the layer's mode does.

    `momentum` of the old mean and variance are kept, the rest is the batch's; in evaluation, or with
    `use_global_stats`, they are what is used, unless `trainable_statistics`. Their names are `_mean` and `_variance`.
    """

    def take(self, given: dict[str, Any]) -> None:
        """Begin as 2.0's, once the arguments that only 1.8 has are checked."""
        whole("BatchNorm", "num_channels", given["num_features"])
        if False in (given["weight_attr"], given["bias_attr"]):
            raise UsageError("BatchNorm: param_attr and bias_attr must not be False")
        act = activation("BatchNorm", given["act"])
        super().take({**given, "act": None, "is_test": False, "in_place": False})
        self._act = act


class LayerNorm(ActingLayer):
    """Each example with mean 0 and variance 1 over the last dimensions; `scale` and `shift` say what is trained."""

    takes = f"normalized_shape, scale=True, shift=True, {_TRAINED}, act=None, dtype='float32'"

    def make_of(self, given: Any) -> None:
        super().make_of(given)
        self._shape, self._epsilon = shape_of(given.normalized_shape), given.epsilon
        given.weight_attr = given.weight_attr if given.scale else False
        given.bias_attr = given.bias_attr if given.shift else False
        self.weight, self.bias = trained(self, [prod(self._shape)], given)

    def forward(self, input: torch.Tensor) -> Any:
        weight, bias = self.weight, self.bias
        if len(self._shape) > 1:
            weight, bias = (None if one is None else one.view(self._shape) for one in (weight, bias))
        return self.acted(F.layer_norm(input, self._shape, weight, bias, self._epsilon))


class GroupNorm(ActingLayer):
    """Groups of channels of each example with mean 0 and variance 1, then times a scale, plus a bias."""

    takes = f"channels, groups, {_TRAINED}, act=None, data_layout='NCHW', dtype='float32'"

    def make_of(self, given: Any) -> None:
        super().make_of(given)
        self.weight, self.bias = trained(self, [whole("GroupNorm", "channels", given.channels)], given)
        self._settings = {name: getattr(given, name) for name in ("groups", "epsilon", "data_layout")}

    def forward(self, input: torch.Tensor) -> Any:
        attrs = {"param_attr": _or_false(self.weight), "bias_attr": _or_false(self.bias)}
        return self.acted(_group_norm(input, **attrs, **self._settings))


class InstanceNorm(TakingLayer, Layer):
    """Each channel of each example with mean 0 and variance 1, then times a scale, plus a bias."""

    takes = f"num_channels, {_TRAINED}, dtype='float32'"

    def make_of(self, given: Any) -> None:
        self._epsilon = given.epsilon
        self.scale, self.bias = trained(self, [whole("InstanceNorm", "num_channels", given.num_channels)], given)

    def forward(self, input: torch.Tensor) -> Any:
        attrs = {"param_attr": _or_false(self.scale), "bias_attr": _or_false(self.bias)}
        return _instance_norm(input, self._epsilon, **attrs)


class SpectralNorm(nn.SpectralNorm, Layer):
    """`nn.SpectralNorm`: a weight divided by its greatest singular value."""


def _or_false(parameter: Any) -> Any:
    return False if parameter is None else parameter
