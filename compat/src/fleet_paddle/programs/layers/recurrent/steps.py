"""What StaticRNN and DynamicRNN share: a loop over arrays, with memories that go from step to step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fleet_programs import layers
from fleet_programs.definition.kinds import ARRAY
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.inside import loop
from fleet_programs.program.variable import Variable


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
        self._count: Variable | None = None
        self._index = layers.fill_constant([1], "int64", 0)
        self._more = self.layer.temporary("bool", stop_gradient=True)
        self._more.shape = (1,)

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Inside, layers add to one step."""
        if self._is_done:
            raise self.layer.error("its step is built already; make another one")
        with loop(self.layer, self._more):
            self._is_inside = True
            try:
                yield
            finally:
                self._is_inside = False
            if self._count is None:
                raise self.layer.error("there is no step_input(); it says how many steps there are")
            self._end(self._count)
        self._is_done = True

    def _end(self, count: Variable) -> None:
        for name, memory in self._memories.items():
            if name not in self._new:
                raise self.layer.error(f"memory {name!r} is never updated; call update_memory()")
            layers.assign(self._new[name], output=memory)
        for array, value in self._outs:
            layers.array_write(value, self._index, array)
        layers.increment(self._index)
        layers.less_than(self._index, count, cond=self._more)

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Inside, layers add to the block around the loop, before it."""
        with self.around.program.inside(self.around):
            yield

    def inside(self, what: str) -> Variable:
        """The number of the step; an error outside of it."""
        if not self._is_inside:
            raise self.layer.error(f"{what} belongs inside the step")
        return self._index

    def over(self, array: Variable, count: Variable) -> Variable:
        """The tensor of an array that belongs to this step; the first one says how many steps there are."""
        if self._count is None:
            self._count = count
            with self.outside():
                layers.less_than(self._index, count, cond=self._more)
        return layers.array_read(array, self._index)

    def taken_apart(self, x: Variable) -> tuple[Variable, Variable]:
        """(the tensors of `x` along its first dimension as an array, how many there are), both before the loop."""
        with self.outside():
            array = self.around.create_var(dtype=x.dtype, kind=ARRAY)
            self.layer.op("tensor_to_array", {"X": x}, {"Out": array})
            return array, layers.array_length(array)

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
