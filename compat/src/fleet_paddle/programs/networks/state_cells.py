"""States of a decoder and how they change with every word: what fluid.contrib's two decoders share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from fleet.errors import UsageError
from fleet_programs import layers
from fleet_programs.program.variable import Variable

__all__ = ["InitState", "StateCell"]


class Holder(Protocol):
    """A decoder: where states are between two steps."""

    def read(self, name: str, first: InitState) -> Variable:
        """The state of that name when the step begins."""

    def write(self, name: str, value: Variable) -> None:
        """What the next step will begin with."""


class InitState:
    """What a state is before the first word: `init`, or `value` with `shape` for every row of `init_boot`.

    `need_reorder` says that its rows are in the order of the batch, not yet in that of lengths.
    """

    def __init__(
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        value: float = 0.0,
        init_boot: Variable | None = None,
        need_reorder: bool = False,
        dtype: Any = "float32",
    ) -> None:
        self.need_reorder = need_reorder
        if init is None:
            if init_boot is None:
                raise UsageError("InitState needs init, or init_boot whose rows it is made for")
            if shape is None:
                raise UsageError("InitState: give shape=[-1, size] with init_boot")
            sizes = [-1, *(size for size in shape if size != -1)]
            init = layers.fill_constant_batch_size_like(init_boot, sizes, dtype, value)
        self.value: Variable = init


class StateCell:
    """States by name, and a function, `@cell.state_updater`, that makes those after a word of those before it."""

    def __init__(
        self, inputs: Mapping[str, Any], states: Mapping[str, InitState], out_state: str, name: str | None = None
    ) -> None:
        if out_state not in states:
            raise UsageError(f"StateCell: out_state {out_state!r} must be one of states, {', '.join(states)}")
        self.name = name
        self.first = dict(states)
        self.input_names = list(inputs)
        self._inputs: dict[str, Any] = dict(inputs)
        self._out_state = out_state
        self._now: dict[str, Variable] = {}
        self._updater: Callable[[StateCell], None] | None = None
        self._holder: Holder | None = None

    def state_updater(self, updater: Callable[[StateCell], None]) -> Callable[[StateCell], None]:
        """Say what `compute_state` does: `updater(cell)` gets inputs and states, and sets states."""
        self._updater = updater
        return updater

    def held_by(self, holder: Holder | None) -> None:
        """Begin a step of a decoder; None ends it."""
        self._holder = holder
        self._now = {}

    def get_input(self, input_name: str) -> Any:
        """What `compute_state` was given under that name."""
        if self._inputs.get(input_name) is None:
            raise UsageError(f"StateCell: input {input_name!r} is not there; give it to compute_state(inputs=...)")
        return self._inputs[input_name]

    def get_state(self, state_name: str) -> Variable:
        """A state as it is now: as the step began, or as it was set."""
        if state_name not in self.first:
            raise UsageError(f"StateCell: there is no state {state_name!r}; it has {', '.join(self.first)}")
        if state_name not in self._now:
            self._now[state_name] = self._inside().read(state_name, self.first[state_name])
        return self._now[state_name]

    def set_state(self, state_name: str, state_value: Variable) -> None:
        """Make a state another."""
        if state_name not in self.first:
            raise UsageError(f"StateCell: there is no state {state_name!r}; it has {', '.join(self.first)}")
        self._now[state_name] = state_value

    def compute_state(self, inputs: Mapping[str, Any]) -> None:
        """Let the updater make the states that these inputs lead to."""
        if unknown := [name for name in inputs if name not in self._inputs]:
            raise UsageError(f"StateCell: {unknown[0]!r} is no input; it has {', '.join(self._inputs)}")
        if self._updater is None:
            raise UsageError("StateCell: say what a step does with @state_cell.state_updater")
        self._inputs.update(inputs)
        self._updater(self)

    def update_states(self) -> None:
        """Let the next step begin with the states as they are now."""
        for name, value in self._now.items():
            self._inside().write(name, value)

    def out_state(self) -> Variable:
        """The state that scores are made of."""
        return self.get_state(self._out_state)

    def _inside(self) -> Holder:
        if self._holder is None:
            raise UsageError("StateCell: states are there inside the block of a decoder")
        return self._holder
