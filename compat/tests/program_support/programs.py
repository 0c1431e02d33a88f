"""Programs of their own for tests: names from 0, nothing left in the default programs, a scope that nobody shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from fleet_programs import layers, optimizer
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.scope import Scope
from fleet_programs.expressions import names
from fleet_programs.layers.io import fed
from fleet_programs.program.program import Program, program_guard
from fleet_programs.program.variable import Variable


class Built:
    """A main and a startup program, and what runs them."""

    def __init__(self, place: object = None) -> None:
        self.main, self.startup, self.scope = Program(), Program(), Scope()
        self._executor = Executor(place)

    def start(self, **values: Any) -> None:
        """Run the startup program, then give variables other values; `__` in a name stands for a dot."""
        self._executor.run(self.startup, scope=self.scope)
        for name, value in values.items():
            self.scope.var(name.replace("__", ".")).get_tensor().set(value, self._executor.place)

    def run(self, feed: Mapping[str, Any] | None = None, *fetches: Any) -> list[Any]:
        return [np.array(one) for one in self._executor.run(self.main, dict(feed or {}), fetches, scope=self.scope)]

    def __getitem__(self, name: str) -> Any:
        return self.scope.tensors[name].numpy(force=True).copy()


@contextmanager
def building(place: object = None) -> Iterator[Built]:
    """Inside, layers add to programs of their own."""
    built = Built(place)
    with names.guard(), program_guard(built.main, built.startup):
        yield built


def trained() -> tuple[Built, Variable]:
    """A line through three numbers and its loss, ready for a step."""
    with building() as built:
        loss = layers.mean(layers.fc(fed("x", [-1, 3]), 1))
        optimizer.SGD(1.0).minimize(loss)
    built.start()
    return built, loss
