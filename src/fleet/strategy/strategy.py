"""DistributedStrategy: every switch of distributed training in one object.

    strategy = DistributedStrategy()
    strategy.localsgd = True
    strategy.localsgd_configs = {"k_steps": 4}
    strategy.save("strategy.toml")

The fields come from one file per theme; this file adds what concerns the whole.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Self

from fleet.errors import StrategyError
from fleet.strategy.collective import CollectiveFields
from fleet.strategy.execution import ExecutionFields
from fleet.strategy.mode import Mode, mode_of
from fleet.strategy.parallel import ParallelFields
from fleet.strategy.parameter_server import ParameterServerFields
from fleet.strategy.support import refuse_elsewhere, refuse_unbuilt
from fleet.strategy.text import read, write
from fleet.strategy.training import TrainingFields


class DistributedStrategy(ParameterServerFields, CollectiveFields, TrainingFields, ParallelFields, ExecutionFields):
    """How to train on many machines; every field is described below.

    A field is checked when it is set, so a wrong value fails on the line that wrote it:

    >>> strategy = DistributedStrategy()
    >>> strategy.localsgd_configs = {"k_steps": 4}
    >>> strategy.localsgd_configs.k_steps
    4
    >>> strategy.a_sync = True
    >>> strategy.mode
    <Mode.ASYNC: 'async'>
    """

    def __init__(self) -> None:
        super().__init__("strategy")

    @property
    def mode(self) -> Mode:
        """The parameter-server mode the fields choose; StrategyError when they contradict each other.

        `fleet.strategy.mode.MODES` is the table of what chooses which.
        """
        configs = self.a_sync_configs
        return mode_of(self.a_sync, configs.k_steps, configs.half_async)

    if not TYPE_CHECKING:  # a checker knows already that a property has no setter

        def __setattr__(self, name: str, value: object) -> None:
            if name == "mode":
                raise StrategyError("strategy.mode cannot be set; it follows from a_sync and a_sync_configs")
            super().__setattr__(name, value)

    def require_supported(self, is_collective: bool | None = None) -> None:
        """Raise NotSupportedError if a field asks for something Fleet does not do yet, or not in such a job."""
        leaves = list(self.leaves())
        refuse_unbuilt(leaves, self.mode)
        if is_collective is None:
            return
        others = (ParameterServerFields,) if is_collective else (CollectiveFields, TrainingFields, ParallelFields)
        refuse_elsewhere(leaves, {name for fields in others for name in fields._members}, is_collective)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fields that differ from their defaults as a TOML file, atomically; StrategyError if that fails."""
        write(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """The strategy of a file written by `save` or by hand."""
        strategy = cls()
        read(strategy, path)
        return strategy

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DistributedStrategy):
            return NotImplemented
        return _differences(self) == _differences(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """What differs from the defaults, as a table."""
        changed = self.changed()
        if not changed:
            return "DistributedStrategy: every field has its default"
        rows = [("field", "value", "default")]
        rows += [(leaf.dotted, leaf.field.show(leaf.value), leaf.field.show(leaf.field.default)) for leaf in changed]
        first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
        lines = (f"  {name:<{first}}  {value:<{second}}  {default}" for name, value, default in rows)
        return "\n".join(("DistributedStrategy", *lines))


def _differences(strategy: DistributedStrategy) -> dict[tuple[str, ...], object]:
    # By difference, so that a table named with nothing set equals a table never named.
    return {leaf.path: leaf.value for leaf in strategy.changed()}
