"""Recurrent networks over whole sequences: `SimpleRNN`, `LSTM`, `GRU`. Their weights have torch's shapes and names."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from fleet.errors import NotSupportedError, UsageError
from fleet.static.initializer import Uniform
from fleet_paddle.imperative.creation import dtype_of
from fleet_paddle.imperative.nn.layer import Layer
from fleet_paddle.imperative.nn.of_tensors import refuse_programs
from fleet_paddle.imperative.place import current
from fleet_paddle.rows.window import plain

__all__ = ["GRU", "LSTM", "SimpleRNN"]

_DIRECTIONS = {"forward": False, "bidirect": True, "bidirectional": True}


def both_or_none(what: str, one: Any, other: Any) -> bool:
    """Whether there are biases; torch has both of them or none."""
    if (one is False) != (other is False):
        raise NotSupportedError(f"{what}: bias_ih_attr and bias_hh_attr must both be False, or neither")
    return one is not False


class _Recurrent(Layer):
    """Layers of cells over a batch of sequences, [batch, time, features], or [time, batch, features] if `time_major`.

    Called with `initial_states`, zeros unless given, and `sequence_length`, the length of each sequence: outputs after
    it are 0, and the last states are those at its end. Gives back all outputs and the last states, [layers *
    directions, batch, hidden_size]. Dropout is between layers.
    """

    batch_first: bool
    flatten_parameters: Any

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
        **more: Any,
    ) -> None:
        refuse_programs(self)
        kind = type(self).__name__
        if direction not in _DIRECTIONS:
            raise UsageError(
                f"{kind}: direction must be one of {', '.join(_DIRECTIONS)}, got {direction!r}; backwards alone is "
                "RNN(cell, is_reverse=True)"
            )
        bias = both_or_none(kind, bias_ih_attr, bias_hh_attr)
        settings = {"device": current(), "dtype": dtype_of(None), **more}
        between = dropout if num_layers > 1 else 0.0  # torch warns of dropout where there is nothing between
        # torch's own comes next in line, and takes sizes where a Layer takes its name.
        super(Layer, self).__init__(
            input_size,
            hidden_size,
            num_layers,
            bias=bias,
            batch_first=not time_major,
            dropout=between,
            bidirectional=_DIRECTIONS[direction],
            **settings,
        )
        self.name_it(name)
        bound = 1.0 / math.sqrt(hidden_size)
        attrs = {"weight_ih": weight_ih_attr, "weight_hh": weight_hh_attr, "bias_ih": bias_ih_attr}
        for own_name, made in list(self.named_parameters()):
            stem = own_name.rpartition("_l")[0]
            attr = attrs.get(stem, bias_hh_attr)
            given = self.create_parameter(
                made.shape, attr, is_bias="bias" in stem, default_initializer=Uniform(-bound, bound)
            )
            if given is None:
                raise UsageError(f"{kind}: {stem}_attr must not be False; a weight is what the layer is")
            setattr(self, own_name, given)
        self.flatten_parameters()

    def forward(self, inputs: torch.Tensor, initial_states: Any = None, sequence_length: Any = None) -> Any:
        given = plain(inputs)
        states = initial_states
        if states is not None:
            states = tuple(plain(one) for one in states) if isinstance(states, tuple | list) else plain(states)
        if sequence_length is None:
            return super().forward(given, states)
        lengths = plain(torch.as_tensor(sequence_length)).reshape(-1).cpu().long()
        if lengths.numel() and int(lengths.min()) < 1:
            raise UsageError(f"{type(self).__name__}: sequence_length must be at least 1, got {lengths.tolist()}")
        packed = pack_padded_sequence(given, lengths, self.batch_first, enforce_sorted=False)
        outputs, last = super().forward(packed, states)
        total = given.shape[1 if self.batch_first else 0]
        return pad_packed_sequence(outputs, self.batch_first, total_length=total)[0], last


class LSTM(_Recurrent, nn.LSTM):  # type: ignore[misc]
    """Long short-term memory; states are (h, c), gates are in the order input, forget, cell, output."""


class GRU(_Recurrent, nn.GRU):  # type: ignore[misc]
    """Gated recurrent units; gates are in the order reset, update, candidate."""


class SimpleRNN(_Recurrent, nn.RNN):  # type: ignore[misc]
    """tanh or relu of the weighted input and state; `activation` says which, and comes after `dropout`."""

    def __init__(self, input_size: int, hidden_size: int, *settings: Any, **named: Any) -> None:
        first, others = settings[:4], settings[4:]
        activation = others[0] if others else named.pop("activation", "tanh")
        if activation not in ("tanh", "relu"):
            raise UsageError(f"SimpleRNN: activation must be tanh or relu, got {activation!r}")
        super().__init__(input_size, hidden_size, *first, *others[1:], **named, nonlinearity=activation)
