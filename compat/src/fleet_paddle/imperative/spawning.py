"""`spawn`: a function in several processes of this machine, each a worker of one collective job."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch.multiprocessing.spawn import start_processes

from fleet.errors import UsageError
from fleet.net import Hold

__all__ = ["spawn"]

_METHODS = ("spawn", "forkserver", "fork")


class Spawned:
    """The processes of one call; `join` waits for them, and raises what one of them raised."""

    def __init__(self, context: Any, ports: ExitStack) -> None:
        self._context, self._ports = context, ports
        self.processes = context.processes

    def join(self, timeout: float | None = None) -> bool:
        """Whether all have ended, after `timeout` seconds at the latest; the others are stopped when one has failed."""
        try:
            done = bool(self._context.join(timeout))
        except BaseException:
            self._ports.close()
            raise
        if done:
            self._ports.close()
        return done


def spawn(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = -1,
    join: bool = True,
    daemon: bool = False,
    **options: Any,
) -> Spawned:
    """Call `func(*args)` in `nprocs` new processes; -1 is one for each GPU, or one where there is none.

    In each of them `init_parallel_env()` finds the others. `gpus="0,2"` says which GPUs they have, `start_method` how
    they are started. A function that is given must be found by its name in its module, as pickle needs it.
    """
    method = options.pop("start_method", None) or "spawn"
    gpus = options.pop("gpus", None) or options.pop("selected_gpus", None)
    if options:
        raise UsageError(f"spawn: there is no option {next(iter(options))!r}; known are gpus and start_method")
    if method not in _METHODS:
        raise UsageError(f"spawn: start_method must be one of {', '.join(_METHODS)}, got {method!r}")
    devices = [one.strip() for one in gpus.split(",")] if isinstance(gpus, str) else [str(one) for one in gpus or ()]
    count = (len(devices) or torch.cuda.device_count() or 1) if nprocs == -1 else nprocs
    if count < 1 or (devices and len(devices) < count):
        raise UsageError(f"spawn: nprocs must be -1, or from 1 to the number of gpus if they are given, got {nprocs}")
    with ExitStack() as held:
        endpoints = [str(held.enter_context(Hold.any_port()).endpoint) for _ in range(count)]
        given = (func, tuple(args), endpoints, devices)
        context = start_processes(_run, given, count, False, daemon, method)
        ports = held.pop_all()  # kept until they have ended; given back here where they could not be started
    spawned = Spawned(context, ports)
    while join and not spawned.join():
        pass
    return spawned


def _run(index: int, func: Callable[..., Any], args: tuple[Any, ...], endpoints: list[str], gpus: list[str]) -> None:
    """What a new process does: learn who it is, as a launcher would have told it, and call the function."""
    os.environ.update(
        PADDLE_TRAINER_ID=str(index),
        PADDLE_TRAINERS_NUM=str(len(endpoints)),
        PADDLE_TRAINER_ENDPOINTS=",".join(endpoints),
        PADDLE_CURRENT_ENDPOINT=endpoints[index],
    )
    if gpus:
        os.environ.update(FLAGS_selected_gpus=gpus[index])
    func(*args)
