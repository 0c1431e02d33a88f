"""A strategy with PaddlePaddle's words: how programs are compiled and run, and settings that are not built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.errors import NotSupportedError
from fleet.strategy import DistributedStrategy
from fleet.strategy.record import GroupField, StrategyRecord
from fleet_paddle.strategies.support import NotBuiltSettings
from fleet_programs.executor.options import BuildStrategy, ExecutionStrategy

_OF_ONE_PROGRAM = ("torch_compile", "cuda_graph", "memory_optimize", "num_trainers", "trainer_id")
"""Fields of a BuildStrategy that only a CompiledProgram can honour."""


class _BuildField(GroupField[BuildStrategy]):
    """A BuildStrategy that is assigned gives the strategy what that has a field of its own for, as 2.0 does it."""

    def __set__(self, record: StrategyRecord, value: Mapping[str, Any]) -> None:
        group = self.__get__(record, type(record))
        if not isinstance(value, BuildStrategy):
            group.assign(value)
            return
        clean = group.cleaned({leaf.dotted: leaf.value for leaf in value.changed()})
        for name in [name for name in clean if name in record._members]:
            setattr(record, name, clean.pop(name))
        group._keep(clean)


class ProgramFields(StrategyRecord):
    """The part of the strategy about programs."""

    build_strategy = _BuildField(BuildStrategy, "says how a static program is compiled.")
    execution_strategy = GroupField(ExecutionStrategy, "says how a static program is run.")


class ProgramStrategy(DistributedStrategy, ProgramFields):
    """Base of the strategies of all versions; a setting that is not built is refused on the line that sets it."""

    def __init__(self) -> None:
        super().__init__()
        self.know(NotBuiltSettings())

    def require_supported(self, is_collective: bool | None = None) -> None:
        """The same for what is set of `build_strategy` and `execution_strategy`."""
        super().require_supported(is_collective)
        self.build_strategy.check()
        self.execution_strategy.check()
        for leaf in self.build_strategy.changed():
            if leaf.dotted in _OF_ONE_PROGRAM:
                raise NotSupportedError(
                    f"strategy.build_strategy.{leaf.dotted} is for one program; give the BuildStrategy to "
                    "fleet_programs.CompiledProgram(program, build_strategy)"
                )
