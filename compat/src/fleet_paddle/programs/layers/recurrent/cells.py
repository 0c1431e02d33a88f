"""Cells of recurrent networks in programs, as 1.8 has them, and `rnn`, which takes one through a sequence."""

from __future__ import annotations

from typing import Any

from fleet_paddle.programs.layers.recurrent.steps import Steps
from fleet_programs import layers
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.nested import flat, packed
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.program.variable import Variable

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "rnn"]


class RNNCell:
    """One step of a recurrent network: `call(inputs, states)` gives (outputs, states after it)."""

    def call(self, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any]:
        """What a cell does, said by its class."""
        raise NotImplementedError(f"{type(self).__name__} must say what call(inputs, states) does")

    def __call__(self, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any]:
        return self.call(inputs, states, **kwargs)

    @property
    def state_shape(self) -> Any:
        """The shape of a state without its batch, or a list of shapes."""
        raise NotImplementedError(f"{type(self).__name__} must say its state_shape")

    def get_initial_states(
        self, batch_ref: Any, shape: Any = None, dtype: Any = "float32", init_value: float = 0.0, batch_dim_idx: int = 0
    ) -> Any:
        """States full of `init_value`, for the batch that `batch_ref` has."""
        first, wanted = flat(batch_ref)[0], self.state_shape if shape is None else shape
        if isinstance(wanted[0], list | tuple):
            return [self.get_initial_states(first, one, dtype, init_value, batch_dim_idx) for one in wanted]
        sizes = [-1, *(size for size in wanted if size != -1)]
        return layers.fill_constant_batch_size_like(first, sizes, dtype, init_value, batch_dim_idx)


class _Weighted(RNNCell):
    """A cell with weights [inputs + hidden_size, columns], which are made when it is first called."""

    def __init__(
        self, hidden_size: int, param_attr: Any, bias_attr: Any, gate_activation: Any, activation: Any, name: str
    ) -> None:
        self.hidden_size = hidden_size
        self._layer = LayerBuilder(name)
        self._attrs = ParamAttr.of(param_attr), ParamAttr.of(bias_attr)
        self._gate = gate_activation or layers.sigmoid
        self._own = activation or layers.tanh

    @property
    def state_shape(self) -> Any:
        return [self.hidden_size]

    def _product(self, parts: list[Variable], columns: int, suffix: str = "") -> Variable:
        x = layers.concat(parts, axis=1)
        made = []
        for attr, kind in zip(self._attrs, ("w", "b"), strict=True):
            own = f"{self._layer.name}{suffix}.{kind}_0"
            given = ParamAttr() if attr is None else attr
            named = own if given.name is None else given.name + suffix
            made.append(
                False
                if attr is None
                else ParamAttr(
                    named, given.initializer, given.learning_rate, given.regularizer, given.trainable, given.need_clip
                )
            )
        return layers.fc(x, columns, param_attr=made[0], bias_attr=made[1])


class GRUCell(_Weighted):
    """A gated recurrent unit: u * state + (1 - u) * candidate, where the candidate sees r * state."""

    def __init__(
        self,
        hidden_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: Any = None,
        activation: Any = None,
        dtype: Any = "float32",  # noqa: ARG002 - it is that of the inputs
        name: str = "GRUCell",
    ) -> None:
        super().__init__(hidden_size, param_attr, bias_attr, gate_activation, activation, name)

    def call(self, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any]:
        """(state, state) after a step; `kwargs` are for cells around it."""
        del kwargs
        gates = self._gate(self._product([inputs, states], 2 * self.hidden_size, "_gate"))
        reset, update = layers.split(gates, 2, dim=1)
        candidate = self._own(self._product([inputs, reset * states], self.hidden_size, "_candidate"))
        new = update * states + (1.0 - update) * candidate
        return new, new


class LSTMCell(_Weighted):
    """A long short-term memory; states are [hidden, cell]."""

    def __init__(
        self,
        hidden_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: Any = None,
        activation: Any = None,
        forget_bias: float = 1.0,
        dtype: Any = "float32",  # noqa: ARG002 - it is that of the inputs
        name: str = "LSTMCell",
    ) -> None:
        super().__init__(hidden_size, param_attr, bias_attr, gate_activation, activation, name)
        self._forget_bias = float(forget_bias)

    @property
    def state_shape(self) -> Any:
        return [[self.hidden_size], [self.hidden_size]]

    def call(self, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any]:
        """(hidden, [hidden, cell]) after a step; `kwargs` are for cells around it."""
        del kwargs
        hidden, cell = states
        given, own, kept, shown = layers.split(self._product([inputs, hidden], 4 * self.hidden_size), 4, dim=1)
        new = cell * self._gate(kept + self._forget_bias) + self._gate(given) * self._own(own)
        out = self._own(new) * self._gate(shown)
        return out, [out, new]


def rnn(
    cell: Any,
    inputs: Any,
    initial_states: Any = None,
    sequence_length: Variable | None = None,
    time_major: bool = False,
    is_reverse: bool = False,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """(outputs of a cell along inputs of [batch, time, ...], its states after the last step).

    With `time_major` time comes first. `sequence_length`, [batch], says after which step the states of a row stay;
    `is_reverse` begins at the end.
    """
    steps = Steps("rnn", None)
    several = [one if time_major else _swapped(one) for one in flat(inputs)]
    if is_reverse:
        several = [layers.reverse(one, 0) for one in several]
    states = cell.get_initial_states(several[0], batch_dim_idx=1) if initial_states is None else initial_states
    arrays = [steps.taken_apart(one) for one in several]
    with steps.stepping():
        words = [steps.over(array, count) for array, count in arrays]
        memories = [steps.remember(one) for one in flat(states)]
        out, new = cell(packed(inputs, words), packed(states, memories), **kwargs)
        going = None if sequence_length is None else _going(steps, sequence_length, arrays[0][1], is_reverse)
        for memory, one in zip(memories, flat(new), strict=True):
            steps.renew(memory.name, one if going is None else _chosen(going, one, memory))
        for one in flat(out):
            steps.collect(one)
    found = [layers.tensor_array_to_tensor(array, axis=0, use_stack=True)[0] for array in steps.arrays()]
    if is_reverse:
        found = [layers.reverse(one, 0) for one in found]
    outs = packed(out, found if time_major else [_swapped(one) for one in found])
    return outs, packed(states, memories)


def _swapped(x: Variable) -> Variable:
    return layers.transpose(x, [1, 0, *range(2, x.ndim)])


def _going(steps: Steps, lengths: Variable, count: Variable, is_reverse: bool) -> Variable:
    """Which rows have a value in this step."""
    step = steps.inside("rnn()")
    place = count - step - 1 if is_reverse else step
    return layers.cast(layers.greater_than(layers.cast(lengths, "int64"), place), "float32")


def _chosen(going: Variable, new: Variable, before: Variable) -> Variable:
    share = going if new.dtype == going.dtype else layers.cast(going, new.dtype)
    return layers.elementwise_add(
        layers.elementwise_mul(new, share, axis=0), layers.elementwise_mul(before, 1.0 - share, axis=0)
    )
