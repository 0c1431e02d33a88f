"""Layers with a weight, as version 1.8 spells them; `act` is the name of a function that comes after."""
# ruff: noqa: ARG002  (use_cudnn: torch chooses)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fleet.errors import NotSupportedError, UsageError
from fleet.static import layers
from fleet.static.initializer import Constant, Normal
from fleet_paddle.dygraph.layer import Layer, activation, whole
from fleet_paddle.fluid.layers import computed
from fleet_paddle.imperative import nn as imperative
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.tensor import own
from fleet_paddle.programs.ops.gru import matrices
from fleet_paddle.rows.window import Sizes

_conv2d_transpose = computed("conv2d_transpose", layers.conv2d_transpose)


class _Weighted(Layer):
    """A layer that is nothing without its weight."""

    def __init__(self, dtype: Any, act: str | None = None) -> None:
        super().__init__(dtype=dtype)
        self._act = activation(type(self).__name__, act)

    def make_weight(self, shape: Sequence[int], attr: Any, default: Any = None) -> Any:
        made = self.create_parameter(shape, attr, default_initializer=default)
        if made is None:
            raise UsageError(
                f"{type(self).__name__}: param_attr must not be False; the layer is nothing without a weight"
            )
        return made


class Linear(_Weighted):
    """input x weight + bias; the weight is [input_dim, output_dim]."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype, act)
        shape = [whole("Linear", "input_dim", input_dim), whole("Linear", "output_dim", output_dim)]
        self.weight = self.make_weight(shape, param_attr)
        self.bias = self.create_parameter([output_dim], bias_attr, is_bias=True)

    def forward(self, input: torch.Tensor) -> Any:
        made = F.linear(input, self.weight, self.bias)
        return made if self._act is None else self._act(made)


class Embedding(Layer, imperative.Embedding):
    """A trained row for each id; `size` is [ids, width]. The row of `padding_idx` reads as zeros."""

    def __init__(
        self,
        size: Sequence[int],
        is_sparse: bool = False,
        is_distributed: bool = False,
        padding_idx: int | None = None,
        param_attr: Any = None,
        dtype: Any = "float32",
    ) -> None:
        if is_distributed:
            raise NotSupportedError("Embedding: is_distributed is for programs; use fleet.nn.Embedding beside servers")
        if not isinstance(size, list | tuple) or len(size) != 2:
            raise UsageError(f"Embedding: size must be [ids, width], got {size!r}")
        imperative.Embedding.__init__(self, size[0], size[1], padding_idx, is_sparse, param_attr, dtype=dtype)


class _Convolution(_Weighted):
    """A filter and a bias; the arguments that both convolutions end with."""

    def __init__(
        self,
        num_channels: int,
        num_filters: int,
        filter_size: Sizes,
        dilation: Sizes = 1,
        groups: int | None = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_cudnn: bool = True,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype, act)
        what, self._dilation, self._groups = type(self).__name__, dilation, 1 if groups is None else groups
        for name, count in (("num_channels", num_channels), ("num_filters", num_filters)):
            if whole(what, name, count) % whole(what, "groups", self._groups):
                raise UsageError(f"{what}: groups must divide {name}, got {groups} for {count}")
        self._sides = [filter_size] * 2 if isinstance(filter_size, int) else list(filter_size)
        shape, first = self.filled(num_channels, num_filters)
        self.weight = self.make_weight([*shape, *self._sides], param_attr, first)
        self.bias = self.create_parameter([num_filters], bias_attr, is_bias=True)

    def filled(self, num_channels: int, num_filters: int) -> tuple[list[int], Any]:
        """The shape of the filter without its sides, and what fills it."""
        spread = (2.0 / (self._sides[0] * self._sides[1] * num_channels)) ** 0.5
        return [num_filters, num_channels // self._groups], Normal(0.0, spread)


class Conv2D(_Convolution):
    """A convolution of images: the filter is [num_filters, num_channels / groups, height, width]."""

    def __init__(
        self,
        num_channels: int,
        num_filters: int,
        filter_size: Sizes,
        stride: Sizes = 1,
        padding: Any = 0,
        *others: Any,
        **named: Any,
    ) -> None:
        super().__init__(num_channels, num_filters, filter_size, *others, **named)
        self._settings = (stride, padding, self._dilation, self._groups)

    def forward(self, input: torch.Tensor) -> Any:
        made = F.conv2d(input, self.weight, self.bias, *self._settings)
        return made if self._act is None else self._act(made)


class Conv2DTranspose(_Convolution):
    """The transpose of a convolution; the filter is [num_channels, num_filters / groups, height, width]."""

    def __init__(
        self,
        num_channels: int,
        num_filters: int,
        filter_size: Sizes,
        output_size: Sizes | None = None,
        padding: Any = 0,
        stride: Sizes = 1,
        *others: Any,
        **named: Any,
    ) -> None:
        super().__init__(num_channels, num_filters, filter_size, *others, **named)
        window = (output_size, self._sides, padding, stride)
        self._settings = (num_filters, *window, self._dilation, self._groups)

    def filled(self, num_channels: int, num_filters: int) -> tuple[list[int], Any]:
        return [num_channels, num_filters // self._groups], None

    def forward(self, input: torch.Tensor) -> Any:
        bias = False if self.bias is None else self.bias
        made = _conv2d_transpose(input, *self._settings, param_attr=self.weight, bias_attr=bias)
        return made if self._act is None else self._act(made)


class PRelu(_Weighted):
    """x above 0, a trained factor times x below: one ("all"), one per channel, or one per element of `input_shape`."""

    def __init__(
        self,
        mode: str,
        channel: int | None = None,
        input_shape: Sequence[int] | None = None,
        param_attr: Any = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype)
        if mode == "all":
            shape = [1]
        elif mode == "channel":
            shape = [1, whole("PRelu", "channel", channel), 1, 1]
        elif mode == "element" and input_shape is not None:
            shape = [1, *list(input_shape)[1:]]
        else:
            raise UsageError(
                f"PRelu: mode must be 'all', 'channel' with channel=, or 'element' with input_shape=, got {mode!r}"
            )
        self._mode = mode
        self.weight = self.make_weight(shape, param_attr, Constant(1.0))

    def forward(self, input: torch.Tensor) -> Any:
        factor = self.weight.view(1, -1, *[1] * (input.dim() - 2)) if self._mode == "channel" else self.weight
        return own(torch.where(input > 0, input, input * factor))


class GRUUnit(_Weighted):
    """One step of a gated recurrent unit; `size` is 3 * width, the weight [width, 3 * width].

    The weight is laid out as that of `layers.gru_unit`: the matrix of both gates, then that of the candidate.
    Called with [rows, 3 * width] and the hidden state [rows, width] it gives the new state, the old one times the reset
    gate, and the gates.
    """

    def __init__(
        self,
        size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        activation: str = "tanh",
        gate_activation: str = "sigmoid",
        origin_mode: bool = False,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype, activation)
        self._gate = _activation(gate_activation)
        if whole("GRUUnit", "size", size) % 3:
            raise UsageError(f"GRUUnit: size must be 3 times the width of the state, got {size}")
        self._width, self._origin_mode = size // 3, bool(origin_mode)
        self.weight = self.make_weight([self._width, size], param_attr)
        self.bias = self.create_parameter([1, size], bias_attr, is_bias=True)

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
        return own(state), own(kept), own(torch.cat([gates, candidate], 1))


def _activation(name: str) -> Any:
    found = activation("GRUUnit", name)
    if found is None:
        raise UsageError("GRUUnit: gate_activation must be given, such as 'sigmoid'")
    return found
