"""DistributedStrategy: every switch of distributed training in one object.

    strategy = DistributedStrategy()
    strategy.localsgd = True
    strategy.localsgd_configs = {"k_steps": 4}
    strategy.save("strategy.toml")

The fields come from one file per theme; this file adds what concerns the whole.
"""

from __future__ import annotations

from os import PathLike
from typing import Self

from fleet.errors import StrategyError
from fleet.strategy.collective import CollectiveFields
from fleet.strategy.execution import ExecutionFields
from fleet.strategy.parallel import ParallelFields
from fleet.strategy.parameter_server import Mode, ParameterServerFields
from fleet.strategy.support import refuse_unbuilt
from fleet.strategy.text import read, write
from fleet.strategy.training import TrainingFields


class DistributedStrategy(ParameterServerFields, CollectiveFields, TrainingFields, ParallelFields, ExecutionFields):
    """How to train on many machines; docs/strategy.md lists every field.

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

        a_sync  k_steps   half_async   mode
        any     -1        False        off
        False   0         False        sync
        True    0         False        async
        True    0         True         half_async
        True    > 0       False        geo
        """
        k_steps = self.a_sync_configs.k_steps
        if self.a_sync_configs.half_async:
            if not self.a_sync or k_steps != 0:
                raise StrategyError(
                    "strategy.a_sync_configs.half_async needs strategy.a_sync = True and k_steps = 0, "
                    f"got a_sync = {self.a_sync} and k_steps = {k_steps}; set both or leave half_async False"
                )
            return Mode.HALF_ASYNC
        if k_steps < 0:
            return Mode.OFF
        if k_steps == 0:
            return Mode.ASYNC if self.a_sync else Mode.SYNC
        if not self.a_sync:
            raise StrategyError(
                f"strategy.a_sync_configs.k_steps = {k_steps} chooses geo mode, which needs "
                "strategy.a_sync = True, got False; set k_steps to 0 for synchronous training"
            )
        return Mode.GEO

    def require_supported(self) -> None:
        """Raise NotSupportedError if a field asks for something Fleet does not do yet."""
        refuse_unbuilt(self.changed(), self.mode)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fields that differ from their defaults as a TOML file, atomically."""
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
