"""`DistributeTranspilerConfig`: the switches of the transpiler, each checked when it is set."""

from __future__ import annotations

from typing import Any

from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet.ps.job.placement import MIN_BLOCK
from fleet.strategy.record import unknown

MODES = ("pserver", "nccl2", "collective")
COLLECTIVE_MODES = ("grad_allreduce", "local_sgd")

_DEFAULTS: dict[str, Any] = {
    "slice_var_up": True,
    "split_method": None,
    "min_block_size": MIN_BLOCK,
    "enable_dc_asgd": False,
    "mode": "pserver",
    "print_log": False,
    "wait_port": True,
    "runtime_split_send_recv": False,
    "sync_mode": True,
    "half_async": False,
    "completely_not_async": False,
    "geo_sgd_mode": False,
    "geo_sgd_need_push_nums": 100,
    "nccl_comm_num": 1,
    "use_hierarchical_allreduce": False,
    "hierarchical_allreduce_inter_nranks": 0,
    "collective_mode": None,
}

_ONLY: dict[str, tuple[Any, str]] = {
    "enable_dc_asgd": (
        False,
        "servers would keep a copy of every parameter for each trainer; half_async has less staleness as well",
    ),
    "use_hierarchical_allreduce": (False, "the library below finds the way through the machines by itself"),
    "hierarchical_allreduce_inter_nranks": (0, "hierarchical all-reduce is not built"),
}
"""Fields that have one value here, and why."""
_CHOICES = {"mode": MODES, "collective_mode": (None, *COLLECTIVE_MODES)}
_LEAST = {
    "min_block_size": (MIN_BLOCK, "smaller blocks cost more in messages than they save"),
    "geo_sgd_need_push_nums": (1, "it is the number of steps between two exchanges"),
    "nccl_comm_num": (1, "it is the number of rings, a hint: all gradients go in one reduction"),
}


class DistributeTranspilerConfig:
    """How a program is cut.

    slice_var_up: cut large parameters into blocks, so that every server has a share; split_method: the dispatcher that
    places blocks, None for RoundRobin; min_block_size: the fewest elements of a block. mode: "pserver", "nccl2" or
    "collective", the last with collective_mode "grad_allreduce" or "local_sgd". sync_mode: trainers keep step; without
    it they do not wait for each other, with half_async each waits for its own gradients, with geo_sgd_mode they train
    on copies and exchange differences every geo_sgd_need_push_nums steps; half_async with completely_not_async is sync
    again. wait_port: get_trainer_program waits for the servers. print_log: say which server holds what.
    runtime_split_send_recv is for sync_mode False, and changes nothing: a program never splits its gradients here. Nor
    does nccl_comm_num, a number of rings: all gradients go in one reduction.
    """

    slice_var_up: bool
    split_method: Any
    min_block_size: int
    enable_dc_asgd: bool
    mode: str
    print_log: bool
    wait_port: bool
    runtime_split_send_recv: bool
    sync_mode: bool
    half_async: bool
    completely_not_async: bool
    geo_sgd_mode: bool
    geo_sgd_need_push_nums: int
    nccl_comm_num: int
    use_hierarchical_allreduce: bool
    hierarchical_allreduce_inter_nranks: int
    collective_mode: str | None

    def __init__(self) -> None:
        self.__dict__.update(_DEFAULTS)
        self.__dict__["chosen"] = set[str]()

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _DEFAULTS:
            kind = type(self).__name__
            raise unknown(kind, name, _DEFAULTS, listed_by=f"help(fleet_programs.transpiler.{kind})")
        self.__dict__[name] = _checked(self, name, value)
        self.__dict__["chosen"].add(name)

    def is_chosen(self, name: str) -> bool:
        """Whether the user has set a field, even to its default."""
        return name in self.__dict__["chosen"]

    def __repr__(self) -> str:
        changed = [f"{name}={getattr(self, name)!r}" for name in _DEFAULTS if getattr(self, name) != _DEFAULTS[name]]
        return f"DistributeTranspilerConfig({', '.join(changed)})"


def check_modes(config: DistributeTranspilerConfig) -> None:
    """UsageError unless `mode` and `collective_mode` go together."""
    if config.collective_mode is not None and config.mode != "collective":
        raise UsageError(
            f'config.collective_mode = "{config.collective_mode}" needs config.mode = "collective", got "{config.mode}"'
        )
    if config.mode == "collective" and config.collective_mode is None:
        raise UsageError('config.mode = "collective" needs config.collective_mode "grad_allreduce" or "local_sgd"')


def _checked(config: DistributeTranspilerConfig, name: str, value: Any) -> Any:
    default = _DEFAULTS[name]
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise UsageTypeError(f"config.{name} must be True or False, got {value!r}")
    elif isinstance(default, int) and (isinstance(value, bool) or not isinstance(value, int)):
        raise UsageTypeError(f"config.{name} must be an int, got {value!r}")
    if name in _ONLY and value != _ONLY[name][0]:
        raise NotSupportedError(f"config.{name} must be {_ONLY[name][0]}, got {value}: {_ONLY[name][1]}")
    if name in _CHOICES and value not in _CHOICES[name]:
        raise UsageError(f"config.{name} must be one of {', '.join(map(repr, _CHOICES[name]))}, got {value!r}")
    if name in _LEAST and value < _LEAST[name][0]:
        raise UsageError(f"config.{name} must be >= {_LEAST[name][0]}, got {value}: {_LEAST[name][1]}")
    if name == "split_method" and value is not None and not callable(value):
        raise UsageTypeError(
            f"config.split_method must be the class of a dispatcher, such as RoundRobin or HashName, got {value!r}"
        )
    if name == "sync_mode" and value and config.runtime_split_send_recv:
        raise UsageError("config.sync_mode cannot be True while runtime_split_send_recv is; set that to False first")
    if name == "runtime_split_send_recv" and value and config.sync_mode:
        raise UsageError("config.runtime_split_send_recv needs sync_mode False; set sync_mode first")
    return value
