"""Strategies of jobs with servers as version 1.x makes them: settings are asked for and given back.

    strategy = StrategyFactory.create_async_strategy()
    strategy.set_trainer_runtime_config({"communicator_send_queue_size": 4})
    program = CompiledProgram(fleet.main_program).with_data_parallel(build_strategy=strategy.get_build_strategy())

`server_modes` has one for each way in which workers and servers come together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from fleet.errors import NotSupportedError, UsageTypeError
from fleet.strategy import Mode
from fleet_paddle.strategies.program_strategy import ProgramStrategy
from fleet_paddle.strategies.runtime_config import TRAFFIC, ServerRuntimeConfig, TrainerRuntimeConfig
from fleet_programs.executor.options import BuildStrategy, ExecutionStrategy
from fleet_programs.transpiler.planning.config import DistributeTranspilerConfig

T = TypeVar("T")

_OF_PROGRAMS = ("slice_var_up", "split_method", "min_block_size")


class ServerStrategy(ProgramStrategy):
    """A strategy of a job with servers whose parts are asked for with `get_*` and replaced with `set_*`."""

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["_build"] = BuildStrategy()
        self.__dict__["_execution"] = ExecutionStrategy()
        self.__dict__["_server_runtime"] = ServerRuntimeConfig()

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
        return TrainerRuntimeConfig(**{name: self.a_sync_configs[name] for name in TRAFFIC})

    def set_trainer_runtime_config(self, config: TrainerRuntimeConfig | Mapping[str, Any]) -> None:
        """Another way for gradients to travel; of a dict, the fields that it has."""
        self.a_sync_configs = dict(vars(_changed(self.get_trainer_runtime_config(), config)))

    def get_server_runtime_config(self) -> ServerRuntimeConfig:
        """The threads of a server."""
        found: ServerRuntimeConfig = self.__dict__["_server_runtime"]
        return found

    def set_server_runtime_config(self, config: ServerRuntimeConfig | Mapping[str, Any]) -> None:
        """Other numbers of threads; of a dict, the fields that it has."""
        self.__dict__["_server_runtime"] = _changed(self.get_server_runtime_config(), config)

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


def _changed(now: T, given: Any) -> T:
    """The config that was given; of a dict, the present one with other values of its fields."""
    if isinstance(given, Mapping):
        for name, value in given.items():
            setattr(now, name, value)
        return now
    if not isinstance(given, type(now)):
        name = type(now).__name__
        raise UsageTypeError(f"a {name} or a dict is expected, got {type(given).__name__}")
    return given


def _settings(kind: Any, given: Any) -> Any:
    made = kind(**given) if isinstance(given, Mapping) and not isinstance(given, kind) else given
    if not isinstance(made, kind):
        raise UsageTypeError(f"a {kind.__name__} or a dict is expected, got {type(given).__name__}")
    made.check()
    return made
