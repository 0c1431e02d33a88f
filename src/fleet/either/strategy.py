"""Strategies as version 1.x of the reference makes them: by a factory for servers, by old names for collective jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from fleet.errors import NotSupportedError, UsageError
from fleet.static.executor.options import BuildStrategy, ExecutionStrategy
from fleet.strategy import DistributedStrategy


class StrategyFactory:
    """A strategy for each way in which workers and servers come together."""

    @staticmethod
    def create_sync_strategy() -> DistributedStrategy:
        """A step ends when every worker's gradients are in."""
        return _strategy(a_sync=False)

    @staticmethod
    def create_async_strategy() -> DistributedStrategy:
        """A gradient counts when it arrives."""
        return _strategy(a_sync=True)

    @staticmethod
    def create_half_async_strategy() -> DistributedStrategy:
        """As async, but a worker waits for its own send."""
        return _strategy(a_sync=True, half_async=True)

    @staticmethod
    def create_geo_strategy(update_frequency: int = 100) -> DistributedStrategy:
        """Workers train on copies and exchange differences every `update_frequency` steps."""
        if update_frequency < 1:
            raise UsageError(f"create_geo_strategy: update_frequency must be >= 1, got {update_frequency}")
        return _strategy(a_sync=True, k_steps=update_frequency)


def _strategy(a_sync: bool, **configs: object) -> DistributedStrategy:
    strategy = DistributedStrategy()
    strategy.a_sync = a_sync
    if configs:
        strategy.a_sync_configs = configs
    return strategy


class CollectiveStrategy(DistributedStrategy):
    """A strategy of a collective job that has the old names as well.

    `use_local_sgd` is `localsgd`, `use_amp` is `amp`, `forward_recompute` is `recompute`. `mode` and `collective_mode`
    say how workers come together. The fields of BuildStrategy choose between ways to the same result, as they do there.
    """

    _RENAMED: ClassVar[dict[str, str]] = {
        "use_local_sgd": "localsgd",
        "use_amp": "amp",
        "forward_recompute": "recompute",
    }

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["_build"] = BuildStrategy()
        self.__dict__["exec_strategy"] = ExecutionStrategy()

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            if name in self._RENAMED:
                setattr(self, self._RENAMED[name], value)
            elif name == "exec_strategy":
                value.check()
                self.__dict__[name] = value
            elif name in ("mode", "collective_mode"):
                self._choose(name, value)
            elif name in ("use_dist_fc", "dist_fc_config"):
                if value:
                    raise NotSupportedError(f"strategy.{name} is not built; leave it out")
            elif name == "recompute_checkpoints":
                self.recompute_configs = {"checkpoints": value}
            elif name not in self._members and name in BuildStrategy._defaults:
                setattr(self.__dict__["_build"], name, value)
                self.__dict__["_build"].check()
            else:
                super().__setattr__(name, value)

        def __getattr__(self, name: str) -> Any:
            if name in self._RENAMED:
                return getattr(self, self._RENAMED[name])
            if name == "collective_mode":
                return "local_sgd" if self.localsgd else "grad_allreduce"
            if name == "recompute_checkpoints":
                return self.recompute_configs.checkpoints
            if name in BuildStrategy._defaults and "_build" in self.__dict__:
                return getattr(self.__dict__["_build"], name)
            return super().__getattr__(name)

    def _choose(self, name: str, value: object) -> None:
        known = {"mode": ("nccl2", "collective"), "collective_mode": (None, "grad_allreduce", "local_sgd")}[name]
        if value not in known:
            raise UsageError(f"strategy.{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
        if name == "collective_mode":
            self.localsgd = value == "local_sgd"
