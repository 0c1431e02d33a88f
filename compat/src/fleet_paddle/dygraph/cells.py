"""Cells of version 1.8: one step of a recurrent network, called with each state as an argument of its own.

`use_cudnn_impl` says how the weights lie: as cuDNN and torch have them, or as one matrix for input and state together.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from fleet.errors import UsageError, UsageTypeError
from fleet_paddle.attr import with_suffix
from fleet_paddle.dygraph.layer import Layer, whole
from fleet_paddle.fluid import layers
from fleet_paddle.imperative.nn.base.taking import TakingLayer
from fleet_paddle.imperative.tensor import as_paddle


class _Cell(TakingLayer, Layer):
    """Weights of `gates` parts, and the functions between them."""

    gates: ClassVar[int]
    parts: ClassVar[dict[str, int]]
    """Without cuDNN's order: the matrices by name, and how many gates each is for."""
    _weight_ih: Any
    _weight_hh: Any
    _bias_ih: Any
    _bias_hh: Any

    def make_of(self, given: Any) -> None:
        kind = type(self).__name__
        width, size = (whole(kind, word, getattr(given, word)) for word in ("hidden_size", "input_size"))
        if given.param_attr is False or given.bias_attr is False:
            raise UsageError(f"{kind}: param_attr and bias_attr must not be False; a cell has weights and biases")
        self._hidden_size, self._input_size, self._use_cudnn_impl = width, size, bool(given.use_cudnn_impl)
        self._gate_activation = _function(kind, "gate_activation", given.gate_activation, layers.sigmoid)
        self._activation = _function(kind, "activation", given.activation, layers.tanh)
        if self._use_cudnn_impl:
            rows = self.gates * width
            shapes = {"_weight_ih": [rows, size], "_weight_hh": [rows, width], "_bias_ih": [rows], "_bias_hh": [rows]}
        else:
            shapes = {f"{part}_weight": [size + width, count * width] for part, count in self.parts.items()}
            shapes |= {f"{part}_bias": [count * width] for part, count in self.parts.items()}
        for name, shape in shapes.items():
            is_bias = "_bias" in name
            attr = with_suffix(given.bias_attr if is_bias else given.param_attr, name)
            setattr(self, name, self.create_parameter(shape, attr, is_bias=is_bias))

    def _both(self, input: torch.Tensor, hidden: torch.Tensor) -> tuple[Any, Any]:
        """What input and state give to each gate, with cuDNN's weights."""
        given = torch.nn.functional.linear(input, self._weight_ih, self._bias_ih)
        kept = torch.nn.functional.linear(hidden, self._weight_hh, self._bias_hh)
        return torch.chunk(given, self.gates, 1), torch.chunk(kept, self.gates, 1)


class LSTMCell(_Cell):
    """Long short-term memory: called with input, hidden and cell state, it gives the new (hidden, cell).

    `forget_bias` is added to the forget gate where the weights do not lie as cuDNN's.
    """

    gates, parts = 4, {"": 4}
    _weight: Any
    _bias: Any
    takes = (
        "hidden_size, input_size, param_attr=None, bias_attr=None, gate_activation=None, activation=None, "
        "forget_bias=1.0, use_cudnn_impl=True, dtype='float64'"
    )

    def make_of(self, given: Any) -> None:
        super().make_of(given)
        self._forget_bias = float(given.forget_bias)

    def forward(self, input: torch.Tensor, pre_hidden: torch.Tensor, pre_cell: torch.Tensor) -> tuple[Any, Any]:
        gate, act = self._gate_activation, self._activation
        if self._use_cudnn_impl:
            given, kept = self._both(input, pre_hidden)
            taken, forgotten, new, shown = (as_paddle(one + other) for one, other in zip(given, kept, strict=True))
        else:
            product = torch.addmm(self._bias, torch.cat([input, pre_hidden], 1), self._weight)
            taken, new, forgotten, shown = (as_paddle(one) for one in torch.chunk(product, 4, 1))
            forgotten = forgotten + self._forget_bias
        cell = pre_cell * gate(forgotten) + gate(taken) * act(new)
        return as_paddle(act(cell) * gate(shown)), as_paddle(cell)


class GRUCell(_Cell):
    """A gated recurrent unit: called with input and state, it gives the new state."""

    gates, parts = 3, {"_gate": 2, "_candidate": 1}
    _gate_weight: Any
    _gate_bias: Any
    _candidate_weight: Any
    _candidate_bias: Any
    takes = (
        "hidden_size, input_size, param_attr=None, bias_attr=None, gate_activation=None, activation=None, "
        "use_cudnn_impl=True, dtype='float64'"
    )

    def forward(self, input: torch.Tensor, pre_hidden: torch.Tensor) -> Any:
        gate, act = self._gate_activation, self._activation
        if self._use_cudnn_impl:
            given, kept = self._both(input, pre_hidden)
            reset, update = (gate(as_paddle(given[place] + kept[place])) for place in range(2))
            candidate = act(as_paddle(given[2] + reset * kept[2]))
        else:
            gates = torch.addmm(self._gate_bias, torch.cat([input, pre_hidden], 1), self._gate_weight)
            reset, update = (gate(as_paddle(one)) for one in torch.chunk(gates, 2, 1))
            seen = torch.cat([input, reset * pre_hidden], 1)
            candidate = act(as_paddle(torch.addmm(self._candidate_bias, seen, self._candidate_weight)))
        return as_paddle((pre_hidden - candidate) * update + candidate)


def _function(kind: str, word: str, given: Any, default: Any) -> Any:
    if given is not None and not callable(given):
        raise UsageTypeError(f"{kind}: {word} must be a function such as fluid.layers.sigmoid, got {given!r}")
    return given or default
