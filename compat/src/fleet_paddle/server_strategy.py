"""Strategies of jobs with servers as version 1.x makes them: a factory, and settings that are asked for and given back.

strategy = StrategyFactory.create_async_strategy()
strategy.set_trainer_runtime_config({"communicator_send_queue_size": 4})
program = CompiledProgram(fleet.main_program).with_data_parallel(build_strategy=strategy.get_build_strategy())
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet.strategy import BuildStrategy, DistributedStrategy, ExecutionStrategy, Mode
from fleet.strategy.unknown import unknown
from fleet.transpiler.config import DistributeTranspilerConfig

_TRAFFIC = (
    "max_merge_var_num",
    "send_queue_size",
    "independent_recv_thread",
    "min_send_grad_num_before_recv",
    "thread_pool_size",
    "send_wait_times",
)
_PREFIX = "communicator_"
_OF_PROGRAMS = ("slice_var_up", "split_method", "min_block_size")


class TrainerRuntimeConfig:
    """How a worker's gradients travel: fields of `strategy.a_sync_configs`, which checks them."""

    def __init__(self, **given: Any) -> None:
        usual = DistributedStrategy().a_sync_configs
        self.__dict__.update({name: usual[name] for name in _TRAFFIC})
        for name, value in given.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        own = name.removeprefix(_PREFIX)
        if own not in _TRAFFIC:
            raise unknown("TrainerRuntimeConfig", name, _TRAFFIC)
        self.__dict__[own] = DistributedStrategy().a_sync_configs.cleaned({own: value}).get(own, value)


class ServerStrategy(DistributedStrategy):
    """A strategy of a job with servers whose parts are asked for with `get_*` and replaced with `set_*`."""

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["_build"] = BuildStrategy()
        self.__dict__["_execution"] = ExecutionStrategy()

    def get_program_config(self) -> DistributeTranspilerConfig:
        """The mode, as a config of the transpiler says it."""
        config = DistributeTranspilerConfig()
        config.sync_mode = self.mode in (Mode.SYNC, Mode.OFF)
        config.half_async = self.mode is Mode.HALF_ASYNC
        config.geo_sgd_mode = self.mode is Mode.GEO
        if config.geo_sgd_mode:
            config.geo_sgd_need_push_nums = self.a_sync_configs.k_steps
        return config

    def set_program_config(self, config: DistributeTranspilerConfig | Mapping[str, Any]) -> None:
        """Take the mode of a config; how it cuts a program is no part of a strategy, so that is refused."""
        if isinstance(config, Mapping):
            given, config = config, self.get_program_config()
            for name, value in given.items():
                setattr(config, name, value)
        if not isinstance(config, DistributeTranspilerConfig):
            raise UsageTypeError(
                f"set_program_config takes a DistributeTranspilerConfig or a dict, got {type(config).__name__}"
            )
        usual = DistributeTranspilerConfig()
        for name in _OF_PROGRAMS:
            if getattr(config, name) != getattr(usual, name):
                raise NotSupportedError(
                    f"set_program_config: {name} is no part of a strategy; give the config itself to "
                    "fleet.distributed_optimizer(optimizer, config)"
                )
        is_geo = config.geo_sgd_mode
        self.a_sync = not config.sync_mode
        self.a_sync_configs = {
            "k_steps": config.geo_sgd_need_push_nums if is_geo else 0,
            "half_async": config.half_async and not config.completely_not_async,
        }

    def get_trainer_runtime_config(self) -> TrainerRuntimeConfig:
        """How gradients travel now."""
        return TrainerRuntimeConfig(**{name: self.a_sync_configs[name] for name in _TRAFFIC})

    def set_trainer_runtime_config(self, config: TrainerRuntimeConfig | Mapping[str, Any]) -> None:
        """Another way for gradients to travel; of a dict, the fields that it has."""
        if isinstance(config, Mapping):
            config = TrainerRuntimeConfig(**{**vars(self.get_trainer_runtime_config()), **_bare(config)})
        if not isinstance(config, TrainerRuntimeConfig):
            raise UsageTypeError(
                f"set_trainer_runtime_config takes a TrainerRuntimeConfig or a dict, got {type(config).__name__}"
            )
        self.a_sync_configs = dict(vars(config))

    def get_build_strategy(self) -> BuildStrategy:
        """How the program is compiled: an object to change, and to give to `with_data_parallel`."""
        found: BuildStrategy = self.__dict__["_build"]
        return found

    def set_build_strategy(self, config: BuildStrategy | Mapping[str, Any]) -> None:
        """Compile in another way."""
        self.__dict__["_build"] = _settings(BuildStrategy, config)

    def get_execute_strategy(self) -> ExecutionStrategy:
        """How the compiled program is run: an object to change, and to give to `with_data_parallel`."""
        found: ExecutionStrategy = self.__dict__["_execution"]
        return found

    def set_execute_strategy(self, config: ExecutionStrategy | Mapping[str, Any]) -> None:
        """Run in another way."""
        self.__dict__["_execution"] = _settings(ExecutionStrategy, config)


def _bare(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(_PREFIX): value for name, value in given.items()}


def _settings(kind: Any, given: Any) -> Any:
    made = kind(**given) if isinstance(given, Mapping) and not isinstance(given, kind) else given
    if not isinstance(made, kind):
        raise UsageTypeError(f"a {kind.__name__} or a dict is expected, got {type(given).__name__}")
    made.check()
    return made


class StrategyFactory:
    """A strategy for each way in which workers and servers come together."""

    @staticmethod
    def create_sync_strategy() -> ServerStrategy:
        """A step ends when every worker's gradients are in."""
        return _strategy(a_sync=False)

    @staticmethod
    def create_async_strategy() -> ServerStrategy:
        """A gradient counts when it arrives."""
        return _strategy(a_sync=True)

    @staticmethod
    def create_half_async_strategy() -> ServerStrategy:
        """As async, but a worker waits for its own send."""
        return _strategy(a_sync=True, half_async=True)

    @staticmethod
    def create_geo_strategy(update_frequency: int = 100) -> ServerStrategy:
        """Workers train on copies and exchange differences every `update_frequency` steps."""
        if update_frequency < 1:
            raise UsageError(f"create_geo_strategy: update_frequency must be >= 1, got {update_frequency}")
        return _strategy(a_sync=True, k_steps=update_frequency)


def _strategy(a_sync: bool, **configs: object) -> ServerStrategy:
    strategy = ServerStrategy()
    strategy.a_sync = a_sync
    if configs:
        strategy.a_sync_configs = configs
    strategy.get_build_strategy().async_mode = a_sync
    return strategy
