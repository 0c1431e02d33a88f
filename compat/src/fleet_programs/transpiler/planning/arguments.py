"""The arguments of `transpile`, in every order that versions of PaddlePaddle have had, as one frozen record.

    0.12   transpile(optimize_ops, params_grads, trainer_id, program, pservers, trainers, split_method, sync_mode)
    0.13   transpile(trainer_id, program, pservers, trainers, split_method, sync_mode)
    0.14   transpile(trainer_id, program, pservers, trainers, slice_var_up, split_method, sync_mode)
    0.15   transpile(trainer_id, program, pservers, trainers, sync_mode, startup_program)
    1.0    transpile(trainer_id, program, pservers, trainers, sync_mode, startup_program, current_endpoint)

The kinds of the arguments tell them apart. A fifth argument True or False without more is sync_mode, as in the newest
form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

from fleet.errors import UsageError, UsageTypeError
from fleet.net import parse_endpoints
from fleet.strategy.mode import Mode
from fleet_programs.program.program import Program, default_main_program, default_startup_program
from fleet_programs.transpiler.planning.config import DistributeTranspilerConfig, check_modes
from fleet_programs.transpiler.planning.ps_dispatcher import RoundRobin

_OLDEST = ("optimize_ops", "params_grads", "trainer_id", "program", "pservers", "trainers", "split_method", "sync_mode")
_SHARED = ("trainer_id", "program", "pservers", "trainers")
_V013 = (*_SHARED, "split_method", "sync_mode")
_V014 = (*_SHARED, "slice_var_up", "split_method", "sync_mode")
_NEWEST = (*_SHARED, "sync_mode", "startup_program", "current_endpoint")
_KNOWN = tuple(dict.fromkeys((*_OLDEST, *_V014, *_NEWEST)))
_DEFAULT_SERVER = "127.0.0.1:6174"


@dataclass(frozen=True)
class Arguments:
    """What a call of `transpile` and the config ask for, checked."""

    trainer_id: int
    main: Program
    startup: Program
    kind: str
    """pserver, nccl2 or collective."""
    endpoints: tuple[str, ...]
    """Of the servers, or of the trainers in the modes without servers."""
    num_trainers: int
    mode: Mode = Mode.SYNC
    k_steps: int = 0
    """Between two exchanges, in geo mode."""
    slice_var_up: bool = True
    min_block_size: int = 0
    split_method: Any = RoundRobin


def read(args: Sequence[Any], named: Mapping[str, Any], config: DistributeTranspilerConfig) -> Arguments:
    """The record of a call; an argument of the call beats the config."""
    given = _named(args, named)
    trainer_id = _whole("trainer_id", given.get("trainer_id", 0), 0)
    main = _program("program", given.get("program"), default_main_program)
    startup = _program("startup_program", given.get("startup_program"), default_startup_program)
    check_modes(config)
    if config.mode != "pserver":
        return _collective(trainer_id, main, startup, given, config)
    if "current_endpoint" in given:  # of a server: get_pserver_program() is told again
        _endpoints("current_endpoint", given["current_endpoint"])
    trainers = given.get("trainers", 1)
    if isinstance(trainers, str):
        raise UsageTypeError(
            f"transpile: trainers must be the number of trainers, got {trainers!r}; a list of endpoints is for "
            'config.mode = "nccl2" and "collective"'
        )
    num_trainers = _whole("trainers", trainers, 1)
    _below(trainer_id, num_trainers)
    mode = _mode(given, config)
    return Arguments(
        trainer_id,
        main,
        startup,
        "pserver",
        _endpoints("pservers", given.get("pservers", _DEFAULT_SERVER)),
        num_trainers,
        mode,
        config.geo_sgd_need_push_nums if mode is Mode.GEO else 0,
        _switch("slice_var_up", given.get("slice_var_up", config.slice_var_up)),
        config.min_block_size,
        _split_method(given.get("split_method", config.split_method)),
    )


def _named(args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments by name; those that a form has but that say nothing are left out."""
    order = _order(args, named)
    if len(args) > len(order):
        raise UsageTypeError(f"transpile takes at most {len(order)} arguments by position, got {len(args)}")
    given = dict(zip(order, args, strict=False))
    for name, value in named.items():
        if name not in _KNOWN:
            raise UsageTypeError(f"transpile has no argument {name!r}; it has {', '.join(_KNOWN)}")
        if name in given:
            raise UsageTypeError(f"transpile: {name} is given twice, by position and by name")
        given[name] = value
    # The gradients are in the program; the oldest form repeats them.
    given.pop("optimize_ops", None)
    given.pop("params_grads", None)
    return {name: value for name, value in given.items() if value is not None}


def _order(args: Sequence[Any], named: Mapping[str, Any]) -> tuple[str, ...]:
    is_oldest = "optimize_ops" in named or "params_grads" in named
    if is_oldest or (args and isinstance(args[0], list | tuple)):
        return tuple(name for name in _OLDEST if not (is_oldest and name in named))
    fifth, sixth = (args[place] if len(args) > place else None for place in (4, 5))
    if fifth is not None and not isinstance(fifth, bool):
        return _V013
    if callable(sixth) and not isinstance(sixth, Program):
        return _V014
    return _NEWEST


def _mode(given: Mapping[str, Any], config: DistributeTranspilerConfig) -> Mode:
    is_sync = _switch("sync_mode", given.get("sync_mode", config.sync_mode))
    asks_sync = is_sync and ("sync_mode" in given or config.is_chosen("sync_mode"))
    if config.completely_not_async and not config.half_async:
        raise UsageError("config.completely_not_async needs half_async = True; without both, sync_mode decides")
    for name in ("geo_sgd_mode", "half_async"):
        if getattr(config, name) and asks_sync:
            raise UsageError(f"config.{name} needs sync_mode False, got True; set sync_mode = False or leave {name}")
    if config.geo_sgd_mode and config.half_async:
        raise UsageError("config.geo_sgd_mode and config.half_async are two modes; choose one")
    if config.geo_sgd_mode:
        return Mode.GEO
    if config.half_async:
        return Mode.SYNC if config.completely_not_async else Mode.HALF_ASYNC
    return Mode.SYNC if is_sync else Mode.ASYNC


def _collective(
    trainer_id: int, main: Program, startup: Program, given: Mapping[str, Any], config: DistributeTranspilerConfig
) -> Arguments:
    trainers = given.get("trainers")
    if not isinstance(trainers, str):
        raise UsageTypeError(
            f'transpile: trainers must be a comma list of HOST:PORT in mode "{config.mode}", got {trainers!r}'
        )
    odd = next((name for name in ("pservers", "split_method", "slice_var_up") if name in given), None)
    if odd is not None:
        raise UsageError(f'transpile: {odd} is for servers, and mode "{config.mode}" has none; leave it out')
    is_sync = given.get("sync_mode", config.sync_mode) is not False
    if not is_sync or config.geo_sgd_mode or config.half_async:
        raise UsageError(
            f'mode "{config.mode}" is synchronous; geo_sgd_mode, half_async and sync_mode=False need servers'
        )
    endpoints = _endpoints("trainers", trainers)
    _below(trainer_id, len(endpoints))
    current = given.get("current_endpoint", endpoints[trainer_id])
    if current != endpoints[trainer_id]:
        raise UsageError(
            f"transpile: current_endpoint is {current!r}, and trainer {trainer_id} of {','.join(endpoints)} is "
            f"{endpoints[trainer_id]!r}; give the endpoint of this trainer"
        )
    if config.mode == "collective" and len(endpoints) == 1:
        raise UsageError(f"transpile: collective mode needs two trainers or more, got {trainers!r}")
    return Arguments(trainer_id, main, startup, config.mode, endpoints, len(endpoints))


def _endpoints(name: str, text: Any) -> tuple[str, ...]:
    if not isinstance(text, str):
        raise UsageTypeError(f"transpile: {name} must be a comma list of HOST:PORT, got {text!r}")
    return tuple(str(endpoint) for endpoint in parse_endpoints(text, f"transpile: {name}"))


def _split_method(value: Any) -> Any:
    if value is None:
        return RoundRobin
    if not callable(value):
        raise UsageTypeError(f"transpile: split_method must be the class of a dispatcher, got {value!r}")
    return value


def _program(name: str, value: Any, default: Any) -> Program:
    program = default() if value is None else value
    if not isinstance(program, Program):
        raise UsageTypeError(f"transpile: {name} must be a Program, got {type(program).__name__}")
    return program


def _whole(name: str, value: Any, least: int) -> int:
    try:
        whole = index(value)
    except TypeError:
        whole = None
    if whole is None or isinstance(value, bool):
        raise UsageTypeError(f"transpile: {name} must be an int, got {value!r}")
    if whole < least:
        raise UsageError(f"transpile: {name} must be >= {least}, got {whole}")
    return whole


def _below(trainer_id: int, num_trainers: int) -> None:
    if trainer_id >= num_trainers:
        raise UsageError(
            f"transpile: trainer_id must be below the number of trainers, {num_trainers}, got {trainer_id}; "
            "trainers are counted from 0"
        )


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageTypeError(f"transpile: {name} must be True or False, got {value!r}")
    return value
