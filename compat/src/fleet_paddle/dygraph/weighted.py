"""Layers with a weight, as version 1.8 spells them; `act` is the name of a function that comes after."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import torch

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.dygraph.layer import ActingLayer, Layer, activation, whole
from fleet_paddle.fluid.layers import computed
from fleet_paddle.imperative import nn as imperative
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.tensor import as_paddle
from fleet_paddle.programs.ops.recurrent.gru import matrices
from fleet_programs import layers
from fleet_programs.parameters.initializer import Constant, Normal

_conv2d_transpose = computed("conv2d_transpose", layers.conv2d_transpose)
REST = "dilation=1, groups=None, param_attr=None, bias_attr=None, use_cudnn=True, act=None, dtype='float32'"
"""What all convolutions end with; torch chooses whether cuDNN is used."""


class Weighted(ActingLayer):
    """A layer that is nothing without its weight."""

    def make_weight(self, shape: Sequence[int], attr: Any, default: Any = None) -> Any:
        """Its weight; UsageError for False."""
        made = self.create_parameter(shape, attr, default_initializer=default)
        if made is None:
            raise UsageError(
                f"{type(self).__name__}: param_attr must not be False; the layer is nothing without a weight"
            )
        return made


class Linear(Weighted):
    """input x weight + bias; the weight is [input_dim, output_dim]."""

    takes = "input_dim, output_dim, param_attr=None, bias_attr=None, act=None, dtype='float32'"

    def make_of(self, given: Any) -> None:
        super().make_of(given)
        shape = [whole("Linear", name, getattr(given, name)) for name in ("input_dim", "output_dim")]
        self.weight = self.make_weight(shape, given.param_attr)
        self.bias = self.create_parameter(shape[1:], given.bias_attr, is_bias=True)

    def forward(self, input: torch.Tensor) -> Any:
        return self.acted(F.linear(input, self.weight, self.bias))


class Embedding(imperative.Embedding, Layer):
    """A trained row for each id; `size` is [ids, width]. The row of `padding_idx` reads as zeros."""

    takes = (
        "size, is_sparse->sparse=False, is_distributed=False, padding_idx=None, param_attr->weight_attr=None, "
        "dtype='float32'"
    )

    def take(self, given: dict[str, Any]) -> None:
        """Begin as 2.0's: `size` is its two numbers in one list."""
        size = given["size"]
        if given["is_distributed"]:
            raise NotSupportedError("Embedding: is_distributed is for programs; use fleet.nn.Embedding beside servers")
        if not isinstance(size, list | tuple) or len(size) != 2:
            raise UsageError(f"Embedding: size must be [ids, width], got {size!r}")
        super().take({**given, "num_embeddings": size[0], "embedding_dim": size[1]})

    def forward(self, input: torch.Tensor) -> Any:
        return super().forward(input)


class Convolution(Weighted):
    """A filter of `rank` sides and a bias; the arguments that all convolutions end with."""

    rank: ClassVar[int] = 2

    def make_of(self, given: Any) -> None:
        super().make_of(given)
        what, channels, filters = type(self).__name__, given.num_channels, given.num_filters
        self._groups = 1 if given.groups is None else given.groups
        for name, count in (("num_channels", channels), ("num_filters", filters)):
            if whole(what, name, count) % whole(what, "groups", self._groups):
                raise UsageError(f"{what}: groups must divide {name}, got {given.groups} for {count}")
        self._sides = [given.filter_size] * self.rank if isinstance(given.filter_size, int) else list(given.filter_size)
        if len(self._sides) != self.rank:
            raise UsageError(f"{what}: filter_size must be a number or {self.rank}, got {given.filter_size!r}")
        shape, first = self.filled(channels, filters)
        self.weight = self.make_weight([*shape, *self._sides], given.param_attr, first)
        self.bias = self.create_parameter([filters], given.bias_attr, is_bias=True)

    def filled(self, num_channels: int, num_filters: int) -> tuple[list[int], Any]:
        """The shape of the filter without its sides, and what fills it."""
        spread = (2.0 / (prod(self._sides) * num_channels)) ** 0.5
        return [num_filters, num_channels // self._groups], Normal(0.0, spread)


class Conv2D(Convolution):
    """A convolution of images: the filter is [num_filters, num_channels / groups, height, width]."""

    takes = f"num_channels, num_filters, filter_size, stride=1, padding=0, {REST}"

    def make_of(self, given: Any) -> None:
        super().make_of(given)
        self._settings = (given.stride, given.padding, given.dilation, self._groups)

    def forward(self, input: torch.Tensor) -> Any:
        return self.acted(F.conv2d(input, self.weight, self.bias, *self._settings))


class Conv2DTranspose(Convolution):
    """The transpose of a convolution; the filter is [num_channels, num_filters / groups, height, width]."""

    takes = f"num_channels, num_filters, filter_size, output_size=None, padding=0, stride=1, {REST}"

    def make_of(self, given: Any) -> None:
        super().make_of(given)
        window = (given.output_size, self._sides, given.padding, given.stride)
        self._settings = (given.num_filters, *window, given.dilation, self._groups)

    def filled(self, num_channels: int, num_filters: int) -> tuple[list[int], Any]:
        return [num_channels, num_filters // self._groups], None

    def forward(self, input: torch.Tensor) -> Any:
        bias = False if self.bias is None else self.bias
        return self.acted(_conv2d_transpose(input, *self._settings, param_attr=self.weight, bias_attr=bias))


class PRelu(Weighted):
    """x above 0, a trained factor times x below: one ("all"), one per channel, or one per element of `input_shape`."""

    takes = "mode, channel=None, input_shape=None, param_attr=None, dtype='float32'"

    def make_of(self, given: Any) -> None:
        super().make_of(given)
        mode, shape = given.mode, [1]
        if mode == "channel":
            shape = [1, whole("PRelu", "channel", given.channel), 1, 1]
        elif mode == "element" and given.input_shape is not None:
            shape = [1, *list(given.input_shape)[1:]]
        elif mode != "all":
            raise UsageError(
                f"PRelu: mode must be 'all', 'channel' with channel=, or 'element' with input_shape=, got {mode!r}"
            )
        self._mode = mode
        self.weight = self.make_weight(shape, given.param_attr, Constant(1.0))

    def forward(self, input: torch.Tensor) -> Any:
        factor = self.weight.view(1, -1, *[1] * (input.dim() - 2)) if self._mode == "channel" else self.weight
        return as_paddle(torch.where(input > 0, input, input * factor))


class GRUUnit(Weighted):
    """One step of a gated recurrent unit; `size` is 3 * width, the weight [width, 3 * width].

    The weight is laid out as that of `layers.gru_unit`: the matrix of both gates, then that of the candidate.
    Called with [rows, 3 * width] and the hidden state [rows, width] it gives the new state, the old one times the reset
    gate, and the gates.
    """

    takes = (
        "size, param_attr=None, bias_attr=None, activation->act='tanh', gate_activation='sigmoid', origin_mode=False, "
        "dtype='float32'"
    )

    def make_of(self, given: Any) -> None:
        super().make_of(given)
        self._gate, size = _activation(given.gate_activation), given.size
        if whole("GRUUnit", "size", size) % 3:
            raise UsageError(f"GRUUnit: size must be 3 times the width of the state, got {size}")
        self._width, self._origin_mode = size // 3, bool(given.origin_mode)
        self.weight = self.make_weight([self._width, size], given.param_attr)
        self.bias = self.create_parameter([1, size], given.bias_attr, is_bias=True)

    def forward(self, input: torch.Tensor, hidden: torch.Tensor) -> tuple[Any, Any, Any]:
        assert self._act is not None
        cut = 2 * self._width
        given = input if self.bias is None else torch.add(input, self.bias)
        of_gates, of_candidate = matrices(self.weight)
        gates = self._gate(torch.addmm(given[:, :cut], hidden, of_gates))
        update, reset = torch.chunk(gates, 2, 1)
        kept = torch.mul(reset, hidden)
        candidate = self._act(torch.addmm(given[:, cut:], kept, of_candidate))
        share = update if self._origin_mode else 1 - update
        state = torch.lerp(candidate, hidden, share)
        return as_paddle(state), as_paddle(kept), as_paddle(torch.cat([gates, candidate], 1))


def _activation(name: str) -> Any:
    found = activation("GRUUnit", name)
    if found is None:
        raise UsageError("GRUUnit: gate_activation must be given, such as 'sigmoid'")
    return found
