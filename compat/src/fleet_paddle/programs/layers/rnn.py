"""`StaticRNN`: a recurrent layer of one's own over steps of equal length, as a loop of the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fleet.static import layers
from fleet.static.kinds import ARRAY
from fleet.static.layers.helper import LayerBuilder
from fleet.static.layers.inside import loop
from fleet.static.variable import Variable

__all__ = ["StaticRNN"]


class Steps:
    """A loop over the tensors of arrays, with memories that go from step to step."""

    def __init__(self, kind: str, name: str | None) -> None:
        self.layer = LayerBuilder(kind, name)
        self.around = self.layer.block
        self._is_inside = False
        self._is_done = False
        self._memories: dict[str, Variable] = {}
        """The memory that a variable inside stands for, by its name."""
        self._new: dict[str, Variable] = {}
        self._outs: list[tuple[Variable, Variable]] = []
        self._index: Variable | None = None
        self._count: Variable | None = None
        self._more: Variable | None = None

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Inside, layers add to one step."""
        if self._is_done:
            raise self.layer.error("its step is built already; make another one")
        self._index = layers.fill_constant([1], "int64", 0)
        self._more = self.layer.temporary("bool", stop_gradient=True)
        self._more.shape = (1,)
        with loop(self.layer, self._more):
            self._is_inside = True
            try:
                yield
            finally:
                self._is_inside = False
            if self._count is None:
                raise self.layer.error("there is no step_input(); it says how many steps there are")
            self._end()
        self._is_done = True

    def _end(self) -> None:
        for name, memory in self._memories.items():
            if name not in self._new:
                raise self.layer.error(f"memory {name!r} is never updated; call update_memory()")
            layers.assign(self._new[name], output=memory)
        for array, value in self._outs:
            layers.array_write(value, self._index, array)
        layers.increment(self._index)
        layers.less_than(self._index, self._count, cond=self._more)

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Inside, layers add to the block around the loop, before it."""
        with self.around.program.inside(self.around):
            yield

    def inside(self, what: str) -> Variable:
        """The number of the step; an error outside of it."""
        if not self._is_inside or self._index is None:
            raise self.layer.error(f"{what} belongs inside the step")
        return self._index

    def over(self, array: Variable, count: Variable) -> Variable:
        """The tensor of an array that belongs to this step; the first one says how many steps there are."""
        if self._count is None:
            self._count = count
            with self.outside():
                layers.less_than(self._index, count, cond=self._more)
        return layers.array_read(array, self._index)

    def remember(self, first: Variable) -> Variable:
        """A memory that begins as `first`, which is of the block around."""
        with self.outside():
            memory = layers.assign(first)
        self._memories[memory.name] = memory
        return memory

    def renew(self, name: str, value: Variable) -> None:
        """What a memory will be in the next step."""
        if name not in self._memories:
            raise self.layer.error(f"{name!r} is no memory; make one with memory()")
        self._new[name] = self.layer.variable(value, "the new value")

    def collect(self, value: Variable) -> None:
        """An output of each step."""
        self.layer.variable(value, "output")
        with self.outside():
            array = layers.create_array(value.dtype)
        array.shape = value.shape
        self._outs.append((array, value))

    def arrays(self) -> list[Variable]:
        """The outputs of all steps."""
        if not self._is_done:
            raise self.layer.error("its outputs are there once the step is built; call it after the with statement")
        if not self._outs:
            raise self.layer.error("it has no output; say output(...) inside the step")
        return [array for array, _ in self._outs]


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
        with steps.outside():
            array = steps.layer.block.create_var(f"{steps.layer.name}.{source.name}@STEPS", kind=ARRAY)
            steps.layer.op("tensor_to_array", {"X": source}, {"Out": array})
            count = layers.array_length(array)
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
