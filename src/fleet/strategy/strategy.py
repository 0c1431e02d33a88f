"""DistributedStrategy: every switch of distributed training in one object.

    strategy = DistributedStrategy()
    strategy.localsgd = True
    strategy.localsgd_configs = {"k_steps": 4}
    strategy.save("strategy.toml")

The fields come from one file per theme; this file adds what concerns the whole.
"""

from __future__ import annotations

import logging
from os import PathLike
from typing import TYPE_CHECKING, ClassVar, Self
from weakref import WeakValueDictionary

from fleet.errors import NotSupportedError, StrategyError
from fleet.json_form import shown
from fleet.strategy.collective import CollectiveFields
from fleet.strategy.common import CommonFields
from fleet.strategy.mode import Mode, mode_of
from fleet.strategy.parallel import ParallelFields
from fleet.strategy.parameter_server import ParameterServerFields
from fleet.strategy.record import Leaf
from fleet.strategy.text import read, write
from fleet.strategy.training import TrainingFields

_log = logging.getLogger(__name__)

CHOSEN_BY_AUTO = ("amp", "compile", "channels_last", "fused_optimizer", "cudnn_exhaustive_search")
"""Switches that `auto` turns as it likes, unless somebody has set them."""


class DistributedStrategy(CommonFields, ParameterServerFields, CollectiveFields, TrainingFields, ParallelFields):
    """How to train on many machines; every field is described below.

    A field is checked when it is set, so a wrong value fails on the line that wrote it (docs/strategy.md lists all).

    >>> strategy = DistributedStrategy()
    >>> strategy.localsgd_configs = {"k_steps": 4}
    >>> strategy.localsgd_configs.k_steps
    4
    >>> strategy.a_sync = True
    >>> strategy.mode
    <Mode.ASYNC: 'async'>
    """

    _alive: ClassVar[WeakValueDictionary[int, DistributedStrategy]] = WeakValueDictionary()

    def __init__(self) -> None:
        super().__init__("strategy")
        self._alive[id(self)] = self

    def close(self, reader: str) -> None:
        """Refuse every later setting, for this call has read them; warn where another strategy was meant."""
        super().close(reader)
        if not reader or self.changed():
            return
        for one in [*self._alive.values()]:
            if one.is_closed or not (changed := one.changed()):
                continue
            switches = [leaf for leaf in one.leaves() if len(leaf.path) == 1 and one.is_set(leaf.path[0])]
            leaf = (switches + changed)[0]
            _log.warning(
                "strategy.%s = %s was set in a strategy that Fleet was not given; write fleet.init(strategy=strategy)",
                leaf.dotted,
                shown(leaf.value),
            )

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
        """NotSupportedError if a field asks for what is not done in such a job; StrategyError for a contradiction."""
        _ = self.mode  # which raises if fields contradict each other
        if is_collective is not None:
            self._refuse_elsewhere(is_collective)

    def _refuse_elsewhere(self, is_collective: bool) -> None:
        """NotSupportedError for a field that belongs to the other kind of job."""
        others = (ParameterServerFields,) if is_collective else (CollectiveFields, TrainingFields, ParallelFields)
        names = {name for fields in others for name in fields._members}
        for leaf in self.changed():
            if leaf.path[0] in names:
                default = shown(leaf.field.default)
                raise NotSupportedError(
                    f"strategy.{leaf.dotted} is for jobs with servers, and this one is collective; leave it at its "
                    f"default ({default})"
                    if is_collective
                    else f"strategy.{leaf.dotted} is for collective jobs; write fleet.init(is_collective=True), or "
                    f"leave it at its default ({default})"
                )

    def said(self) -> list[Leaf]:
        """What differs from the defaults and, with `auto`, what it would choose had nobody set it."""
        decided = {name for name in CHOSEN_BY_AUTO if self.auto and self.is_set(name)}
        return [leaf for leaf in self.leaves() if leaf.differs or leaf.dotted in decided]

    def save(self, path: str | PathLike[str]) -> None:
        """Write what was said (`said`) as a TOML file, atomically; StrategyError if that fails."""
        write(self, self.said(), path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """The strategy of a file written by `save` or by hand."""
        strategy = cls()
        read(strategy, path)
        return strategy

    def __eq__(self, other: object) -> bool:
        return _differences(self) == _differences(other) if isinstance(other, DistributedStrategy) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """What differs from the defaults, as a table."""
        changed = self.changed()
        if not changed:
            return "DistributedStrategy: every field has its default"
        rows = [("field", "value", "default")]
        rows += [(leaf.dotted, shown(leaf.value), shown(leaf.field.default)) for leaf in changed]
        first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
        lines = (f"  {name:<{first}}  {value:<{second}}  {default}" for name, value, default in rows)
        return "\n".join(("DistributedStrategy", *lines))


def _differences(strategy: DistributedStrategy) -> dict[tuple[str, ...], object]:
    return {leaf.path: leaf.value for leaf in strategy.said()}
