"""How the processes of a job with servers send and answer, as version 1.x says it: two objects of plain fields."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from fleet.errors import UsageError
from fleet.strategy.record import unknown
from fleet_paddle.strategies.program_strategy import ProgramStrategy

TRAFFIC = (
    "max_merge_var_num",
    "send_queue_size",
    "independent_recv_thread",
    "min_send_grad_num_before_recv",
    "thread_pool_size",
    "send_wait_times",
)
"""The fields of `strategy.a_sync_configs` that a TrainerRuntimeConfig has."""
_PREFIX = "communicator_"
_THREADS = ("rpc_send_thread_num", "rpc_get_thread_num", "rpc_prefetch_thread_num")


class TrainerRuntimeConfig:
    """How a worker's gradients travel: fields of `strategy.a_sync_configs`, which checks them.

    `runtime_configs` has the same under version 1.8's names, such as `communicator_send_queue_size`; there numbers may
    be text, as in variables of the environment.
    """

    def __init__(self, **given: Any) -> None:
        usual = ProgramStrategy().a_sync_configs
        self.__dict__.update({name: usual[name] for name in TRAFFIC})
        for name, value in given.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        own = name.removeprefix(_PREFIX)
        if own not in TRAFFIC:
            raise unknown("TrainerRuntimeConfig", name, TRAFFIC)
        self.__dict__[own] = ProgramStrategy().a_sync_configs.cleaned({own: value}).get(own, value)

    @property
    def runtime_configs(self) -> MutableMapping[str, Any]:
        """The fields under version 1.8's names; what is set there is set here."""
        return _Flags(self)

    def get_communicator_flags(self) -> dict[str, str]:
        """The fields under version 1.8's names, as text."""
        return {name: str(int(value)) for name, value in self.runtime_configs.items()}

    def __repr__(self) -> str:
        return f"TrainerRuntimeConfig({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class _Flags(MutableMapping[str, Any]):
    """A TrainerRuntimeConfig as a dict whose names have the prefix."""

    def __init__(self, config: TrainerRuntimeConfig) -> None:
        self._config = config

    def __getitem__(self, name: str) -> Any:
        return vars(self._config)[name.removeprefix(_PREFIX)]

    def __setitem__(self, name: str, value: Any) -> None:
        own = name.removeprefix(_PREFIX)
        number = int(value) if isinstance(value, str) and value.isdigit() else value
        is_switch = isinstance(vars(self._config).get(own), bool)
        setattr(self._config, own, bool(number) if is_switch and number in (0, 1) else number)

    def __delitem__(self, name: str) -> None:
        raise UsageError(f"runtime_configs: {name!r} always has a value; set another in place of deleting it")

    def __iter__(self) -> Iterator[str]:
        return (_PREFIX + name for name in vars(self._config))

    def __len__(self) -> int:
        return len(vars(self._config))


class ServerRuntimeConfig:
    """Numbers of threads that answer the workers: hints, since a server takes as many as its machine has cores.

    No result depends on them. Version 1.8 writes the names with an underscore in front.
    """

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(dict.fromkeys(_THREADS, 12))
        for name, value in given.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        own = name.removeprefix("_")
        if own not in _THREADS:
            raise unknown("ServerRuntimeConfig", name, _THREADS)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(f"ServerRuntimeConfig.{own} must be a number of threads from 1, got {value!r}")
        self.__dict__[own] = value

    def __getattr__(self, name: str) -> int:
        own = name.removeprefix("_")
        if own not in _THREADS or own == name:
            raise unknown("ServerRuntimeConfig", name, _THREADS)
        found: int = self.__dict__[own]
        return found

    def __repr__(self) -> str:
        return f"ServerRuntimeConfig({', '.join(f'{name}={value}' for name, value in vars(self).items())})"
