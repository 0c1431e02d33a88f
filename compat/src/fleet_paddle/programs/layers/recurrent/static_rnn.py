"""`StaticRNN`: a recurrent layer of one's own over steps of equal length, as a loop of the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet_paddle.programs.layers.recurrent.steps import Steps
from fleet_programs import layers
from fleet_programs.program.variable import Variable

__all__ = ["StaticRNN"]


class StaticRNN:
    """A recurrent layer: `with rnn.step():` says what happens in one step, over inputs of [steps, batch, ...]."""

    def __init__(self, name: str | None = None) -> None:
        self._steps = Steps("static_rnn", name)
        self._sources: dict[str, Variable] = {}

    def step(self) -> Any:
        """Inside, layers add to one step."""
        return self._steps.stepping()

    def step_input(self, x: Variable) -> Variable:
        """What `x` has for this step."""
        steps = self._steps
        steps.inside("step_input()")
        source = steps.layer.variable(x, "x")
        array, count = steps.taken_apart(source)
        found = steps.over(array, count)
        self._sources[found.name] = source
        return found

    def memory(
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        batch_ref: Variable | None = None,
        init_value: float = 0.0,
        init_batch_dim_idx: int = 0,
        ref_batch_dim_idx: int = 1,
    ) -> Variable:
        """What the last step left: `init` before the first one, or `init_value` with the batch size of `batch_ref`."""
        steps = self._steps
        steps.inside("memory()")
        if init is not None:
            return steps.remember(steps.layer.variable(init, "init"))
        if shape is None or batch_ref is None:
            raise steps.layer.error("memory() needs init, or shape and batch_ref")
        source = self._sources.get(batch_ref.name, batch_ref)
        with steps.outside():
            first = layers.fill_constant_batch_size_like(
                source, list(shape), source.dtype, init_value, ref_batch_dim_idx, init_batch_dim_idx
            )
        return steps.remember(first)

    def update_memory(self, mem: Variable, var: Variable) -> None:
        """`var` is what the next step remembers."""
        self._steps.inside("update_memory()")
        self._steps.renew(mem.name, var)

    def step_output(self, o: Variable) -> None:
        """An output of this step."""
        self._steps.inside("step_output()")
        self._steps.collect(o)

    def output(self, *outputs: Variable) -> None:
        """Outputs of this step."""
        for one in outputs:
            self.step_output(one)

    def __call__(self) -> Any:
        """The outputs of all steps, [steps, ...]; a list if there are several."""
        found = [layers.tensor_array_to_tensor(one, axis=0, use_stack=True)[0] for one in self._steps.arrays()]
        return found[0] if len(found) == 1 else found
