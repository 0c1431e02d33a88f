"""Recurrent networks over whole sequences: `SimpleRNN`, `LSTM`, `GRU`. Their weights have torch's shapes and names.

After `enable_static()` they are one operator of the program, `rnn`, which runs torch's kernels too.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.imperative.creation import dtype_of
from fleet_paddle.imperative.nn.base import programs
from fleet_paddle.imperative.nn.base.layer import Layer
from fleet_paddle.imperative.nn.base.taking import TakingLayer
from fleet_paddle.imperative.place import current
from fleet_paddle.programs.networks.recurrent_network import Network
from fleet_paddle.programs.ops.recurrent.rnn import lengths_of
from fleet_paddle.rows.window import plain
from fleet_programs.parameters.initializer import Uniform
from fleet_programs.program.variable import Variable

__all__ = ["GRU", "LSTM", "SimpleRNN"]

_DIRECTIONS = {"forward": False, "bidirect": True, "bidirectional": True}


_SIZES = "input_size, hidden_size, num_layers=1, direction='forward', time_major=False, dropout=0.0"
ATTRS = "weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None, bias_hh_attr=None, name"
"""What all of them, and all cells, take at the end."""


def nonlinearity(layer: Layer, given: Any) -> str:
    """The activation of a simple recurrent layer or cell."""
    if given.activation not in ("tanh", "relu"):
        raise UsageError(f"{type(layer).__name__}: activation must be tanh or relu, got {given.activation!r}")
    return str(given.activation)


def both_or_none(what: str, one: Any, other: Any) -> bool:
    """Whether there are biases; torch has both of them or none."""
    if (one is False) != (other is False):
        raise NotSupportedError(f"{what}: bias_ih_attr and bias_hh_attr must both be False, or neither")
    return one is not False


class _Recurrent(TakingLayer):
    """Layers of cells over a batch of sequences, [batch, time, features], or [time, batch, features] if `time_major`.

    Called with `initial_states`, zeros unless given, and `sequence_length`, the length of each sequence: outputs after
    it are 0, and the last states are those at its end. Gives back all outputs and the last states, [layers *
    directions, batch, hidden_size]. Dropout is between layers.
    """

    mode: str
    hidden_size: int
    num_layers: int
    bidirectional: bool
    batch_first: bool
    dropout: float
    flatten_parameters: Any
    _all_weights: list[list[str]]
    _flat_weights: Any
    takes = f"{_SIZES}, {ATTRS}"

    def begin(self, name: str | None, dtype: Any) -> None:
        nn.Module.__init__(self)  # torch's own begins when it knows its sizes
        self.name_it(name, dtype)

    def own_settings(self, given: Any) -> dict[str, Any]:  # noqa: ARG002
        """What torch's own takes besides."""
        return {}

    def make_of(self, given: Any) -> None:
        kind, num_layers, direction = type(self).__name__, given.num_layers, given.direction
        if direction not in _DIRECTIONS:
            raise UsageError(
                f"{kind}: direction must be one of {', '.join(_DIRECTIONS)}, got {direction!r}; backwards alone is "
                "RNN(cell, is_reverse=True)"
            )
        settings = {
            "bias": both_or_none(kind, given.bias_ih_attr, given.bias_hh_attr),
            "batch_first": not given.time_major,
            "dropout": given.dropout if num_layers > 1 else 0.0,  # torch warns of it where there is nothing between
            "bidirectional": _DIRECTIONS[direction],
            **self.own_settings(given),
        }
        # torch's own comes next in line, and takes sizes where a Layer takes its name.
        device = "meta" if programs.are_meant() else current()  # a program's first values come later
        super(Layer, self).__init__(
            given.input_size, given.hidden_size, num_layers, device=device, dtype=dtype_of(None), **settings
        )
        bound = 1.0 / math.sqrt(given.hidden_size)
        for own_name, made in list(self.named_parameters()):
            stem = own_name.rpartition("_l")[0]
            attr, first = getattr(given, f"{stem}_attr"), Uniform(-bound, bound)
            own = self.create_parameter(made.shape, attr, is_bias="bias" in stem, default_initializer=first)
            if own is None:
                raise UsageError(f"{kind}: {stem}_attr must not be False; a weight is what the layer is")
            setattr(self, own_name, own)
        if programs.are_meant():
            self._flat_weights = []
        else:
            self.flatten_parameters()

    def forward(self, inputs: Any, initial_states: Any = None, sequence_length: Any = None) -> Any:
        if isinstance(inputs, Variable):
            return self._of_variables(inputs, initial_states, sequence_length)
        if not self._flat_weights:
            programs.check_operands(self, (inputs,))
        given = plain(inputs)
        states = initial_states
        if states is not None:
            states = tuple(plain(one) for one in states) if isinstance(states, tuple | list) else plain(states)
        if sequence_length is None:
            return super().forward(given, states)
        lengths = lengths_of(type(self).__name__, plain(torch.as_tensor(sequence_length)))
        packed = pack_padded_sequence(given, lengths, self.batch_first, enforce_sorted=False)
        outputs, last = super().forward(packed, states)
        total = given.shape[1 if self.batch_first else 0]
        return pad_packed_sequence(outputs, self.batch_first, total_length=total)[0], last

    def _of_variables(self, inputs: Variable, states: Any, lengths: Variable | None) -> tuple[Variable, Any]:
        programs.check_operands(self, (inputs,))
        settings = (self.mode, self.hidden_size, self.num_layers, self.bidirectional, not self.batch_first)
        network = Network(*settings, self.dropout, not self.training)
        weights = [getattr(self, name) for names in self._all_weights for name in names]
        several = [] if states is None else list(states) if isinstance(states, tuple | list) else [states]
        out, last = network(inputs, weights, several, lengths)
        return out, tuple(last) if len(last) > 1 else last[0]


class LSTM(_Recurrent, nn.LSTM):
    """Long short-term memory; states are (h, c), gates are in the order input, forget, cell, output."""


class GRU(_Recurrent, nn.GRU):
    """Gated recurrent units; gates are in the order reset, update, candidate."""


class SimpleRNN(_Recurrent, nn.RNN):
    """tanh or relu of the weighted input and state; `activation` says which, and comes after `dropout`."""

    takes = f"{_SIZES}, activation='tanh', {ATTRS}"

    def own_settings(self, given: Any) -> dict[str, Any]:
        return {"nonlinearity": nonlinearity(self, given)}
