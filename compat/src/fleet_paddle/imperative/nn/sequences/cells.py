"""One step of a recurrent network, and `RNN` and `BiRNN`, which take any such cell through a sequence."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch.utils._pytree import tree_map

from fleet.errors import UsageError
from fleet_paddle.imperative.creation import dtype_of
from fleet_paddle.imperative.nn.base import programs
from fleet_paddle.imperative.nn.base.layer import Layer
from fleet_paddle.imperative.nn.base.taking import TakingLayer
from fleet_paddle.imperative.nn.sequences.recurrent import ATTRS, both_or_none, nonlinearity
from fleet_paddle.imperative.tensor import as_paddle
from fleet_paddle.programs.layers.recurrent.cells import rnn
from fleet_paddle.programs.networks import recurrent_network
from fleet_paddle.variables import has_variable
from fleet_programs import layers
from fleet_programs.definition.dtypes import canonical
from fleet_programs.parameters.initializer import Uniform
from fleet_programs.program.variable import Variable

__all__ = ["RNN", "BiRNN", "GRUCell", "LSTMCell", "RNNCellBase", "SimpleRNNCell"]


class RNNCellBase(Layer):
    """A cell: called with the input of a step and the states before, it gives back the output and the states after."""

    @property
    @abstractmethod
    def state_shape(self) -> Any:
        """The shape of a state without its batch, or a tuple of shapes."""

    def get_initial_states(
        self, batch_ref: Any, shape: Any = None, dtype: Any = None, init_value: float = 0.0, batch_dim_idx: int = 0
    ) -> Any:
        """States full of `init_value`, for the batch that `batch_ref` has."""
        first = batch_ref[0] if isinstance(batch_ref, tuple | list) else batch_ref
        wanted = self.state_shape if shape is None else shape
        if isinstance(wanted[0], tuple | list):
            return tuple(self.get_initial_states(first, one, dtype, init_value, batch_dim_idx) for one in wanted)
        sizes = [one for one in wanted if one != -1]
        if isinstance(first, Variable):
            own = first.dtype if dtype is None else canonical(dtype)
            return layers.fill_constant_batch_size_like(first, [-1, *sizes], own, init_value, batch_dim_idx)
        kind = first.dtype if dtype is None else dtype_of(dtype)
        return as_paddle(torch.full((first.shape[batch_dim_idx], *sizes), init_value, dtype=kind, device=first.device))


class _Cell(TakingLayer, RNNCellBase):
    """Weights [gates * hidden_size, input_size] and [gates * hidden_size, hidden_size], as torch's cells have them."""

    gates: ClassVar[int]
    mode: str
    weight_ih: Any
    weight_hh: Any
    bias_ih: Any
    bias_hh: Any
    step: Any
    takes = f"input_size, hidden_size, {ATTRS}"

    def make_of(self, given: Any) -> None:
        kind, width = type(self).__name__, given.hidden_size
        if width < 1:
            raise UsageError(f"{kind}: hidden_size must be at least 1, got {width}")
        both_or_none(kind, given.bias_ih_attr, given.bias_hh_attr)
        self.input_size, self.hidden_size = given.input_size, width
        bound = 1.0 / math.sqrt(width)
        rows, first = self.gates * width, Uniform(-bound, bound)
        for name, shape in (("weight_ih", [rows, given.input_size]), ("weight_hh", [rows, width])):
            weight = self.create_parameter(shape, getattr(given, f"{name}_attr"), default_initializer=first)
            if weight is None:
                raise UsageError(f"{kind}: weight_ih_attr and weight_hh_attr must not be False")
            setattr(self, name, weight)
        for name in ("bias_ih", "bias_hh"):
            attr = getattr(given, f"{name}_attr")
            setattr(self, name, self.create_parameter([rows], attr, is_bias=True, default_initializer=first))

    @property
    def state_shape(self) -> Any:
        return (self.hidden_size,)

    def forward(self, inputs: Any, states: Any = None) -> Any:
        before = self.get_initial_states(inputs) if states is None else states
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if isinstance(inputs, Variable):
            return self._of_variables(inputs, before, [one for one in weights if one is not None])
        made = as_paddle(self.step(inputs, before, *weights))
        return made[0] if isinstance(made, tuple) else made, made

    def _of_variables(self, x: Variable, before: Any, weights: list[Any]) -> tuple[Variable, Any]:
        programs.check_operands(self, (x,))
        several = list(before) if isinstance(before, tuple | list) else [before]
        made = recurrent_network.step(self.mode, x, weights, several, self.hidden_size)
        return made[0], tuple(made) if len(made) > 1 else made[0]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class SimpleRNNCell(_Cell):
    """tanh or relu of the weighted input and state; gives back that twice."""

    gates = 1
    takes = f"input_size, hidden_size, activation='tanh', {ATTRS}"

    def make_of(self, given: Any) -> None:
        self.mode = f"RNN_{nonlinearity(self, given).upper()}"
        self.step = {"RNN_TANH": torch.rnn_tanh_cell, "RNN_RELU": torch.rnn_relu_cell}[self.mode]
        super().make_of(given)


class GRUCell(_Cell):
    """Gated recurrent units; gives back the state twice."""

    gates, mode, step = 3, "GRU", staticmethod(torch.gru_cell)


class LSTMCell(_Cell):
    """Long short-term memory; gives back h and the states (h, c)."""

    gates, mode, step = 4, "LSTM", staticmethod(torch.lstm_cell)

    @property
    def state_shape(self) -> Any:
        return (self.hidden_size,), (self.hidden_size,)


class RNN(Layer):
    """Takes a cell through a sequence, from its end if `is_reverse`; gives back outputs and the last states.

    After the end of a sequence, which `sequence_length` tells, states stay as they are.
    """

    def __init__(self, cell: Any, is_reverse: bool = False, time_major: bool = False) -> None:
        super().__init__()
        self.cell, self.is_reverse, self.time_major = cell, is_reverse, time_major

    def forward(
        self, inputs: Any, initial_states: Any = None, sequence_length: Any = None, **kwargs: Any
    ) -> tuple[Any, Any]:
        way = (self.is_reverse, 0 if self.time_major else 1)
        return _through(self.cell, inputs, initial_states, sequence_length, *way, kwargs)


class BiRNN(Layer):
    """Two cells, one from each end; outputs side by side, and the last states of both."""

    def __init__(self, cell_fw: Any, cell_bw: Any, time_major: bool = False) -> None:
        super().__init__()
        self.cell_fw, self.cell_bw, self.time_major = cell_fw, cell_bw, time_major

    def forward(
        self, inputs: Any, initial_states: Any = None, sequence_length: Any = None, **kwargs: Any
    ) -> tuple[Any, Any]:
        axis = 0 if self.time_major else 1
        starts = (None, None) if initial_states is None else initial_states
        left, first = _through(self.cell_fw, inputs, starts[0], sequence_length, False, axis, kwargs)
        right, second = _through(self.cell_bw, inputs, starts[1], sequence_length, True, axis, kwargs)
        return tree_map(_beside, left, right), (first, second)


def _beside(one: Any, other: Any) -> Any:
    if isinstance(one, Variable):
        return layers.concat([one, other], -1)
    return as_paddle(torch.cat([one, other], -1))


def _through(
    cell: Any, inputs: Any, states: Any, lengths: Any, backwards: bool, axis: int, more: dict[str, Any]
) -> tuple[Any, Any]:
    """Outputs and last states of a cell that goes along a dimension; over variables it is a loop of the program."""
    if has_variable(inputs if isinstance(inputs, tuple | list) else [inputs]):
        return _along_variables(cell, inputs, states, lengths, backwards, axis, more)
    if states is None:
        states = cell.get_initial_states(inputs, cell.state_shape, batch_dim_idx=1 - axis)
    steps = range((inputs[0] if isinstance(inputs, tuple | list) else inputs).shape[axis])
    outputs = []
    for step in reversed(steps) if backwards else steps:
        given = tree_map(lambda one, place=step: as_paddle(torch.select(one, axis, place)), inputs)
        output, after = cell(given, states, **more)
        if lengths is not None:
            goes_on = torch.as_tensor(lengths) > step
            after = tree_map(lambda new, old, go=goes_on: _chosen(go, new, old), after, states)
        states = after
        outputs.append(output)
    if backwards:
        outputs.reverse()
    return tree_map(lambda *several: as_paddle(torch.stack(several, axis)), *outputs), states


def _along_variables(
    cell: Any, inputs: Any, states: Any, lengths: Any, backwards: bool, axis: int, more: dict[str, Any]
) -> tuple[Any, Any]:
    """The same over variables: one operator where the cell is ours and no sequence ends early, else a loop."""
    if lengths is not None or more or not isinstance(cell, _Cell) or not isinstance(inputs, Variable):
        return rnn(cell, inputs, states, lengths, axis == 0, backwards, **more)
    programs.check_operands(cell, (inputs,))
    weights = [one for one in (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh) if one is not None]
    several = [] if states is None else list(states) if isinstance(states, tuple | list) else [states]
    network = recurrent_network.Network(cell.mode, cell.hidden_size, time_major=axis == 0)
    x = layers.reverse(inputs, axis) if backwards else inputs
    out, last = network(x, weights, [layers.unsqueeze(one, [0]) for one in several], None)
    ends = [layers.squeeze(one, [0]) for one in last]
    return layers.reverse(out, axis) if backwards else out, tuple(ends) if len(ends) > 1 else ends[0]


def _chosen(goes_on: torch.Tensor, new: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    return as_paddle(torch.where(torch.reshape(goes_on, (-1, *[1] * (new.dim() - 1))), new, old))
