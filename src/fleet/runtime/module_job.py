"""A job of torch modules with servers: one model, one optimizer, and the worker that they are bound to."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet.nn.sparse import SparseModule
from fleet.ps.optimizer import ServerOptimizer
from fleet.ps.worker import has_left
from fleet.runtime import saving, unstopped
from fleet.runtime.join import share_parameters, start_worker

if TYPE_CHECKING:
    from fleet.ps.placement import Dispatch, Dispatcher
    from fleet.ps.worker import Worker
    from fleet.runtime.servers import Servers
    from fleet.strategy import DistributedStrategy

Folder = str | PathLike[str]


class ModuleJob:
    """The model and the optimizer of a job in this process.

    `average` gives a tensor its mean over the workers, `broadcast` what it is in worker 0.
    """

    def __init__(self, average: Callable[[torch.Tensor], None], broadcast: Callable[[torch.Tensor], None]) -> None:
        self._average = average
        self._broadcast = broadcast
        self._worker: Worker | None = None
        self._has_left = False
        self._model: nn.Module | None = None
        self._optimizer: ServerOptimizer | None = None

    def add_model(self, model: nn.Module) -> None:
        """Train this model; UsageError if there is another, unless its worker has left the servers."""
        if self._model not in (None, model) and not self._has_left:
            raise UsageError(
                f"fleet.distributed_model() was given a {type(self._model).__name__} before, and a job has one model; "
                "put both into one: nn.ModuleList([first, second])"
            )
        self._model = model

    def add_optimizer(self, users: torch.optim.Optimizer) -> ServerOptimizer:
        """The optimizer to train with, in the place of the user's: its step runs on the servers."""
        self._optimizer = ServerOptimizer(users)
        return self._optimizer

    def init_worker(
        self, servers: Servers, strategy: DistributedStrategy, dispatcher: Dispatcher | Dispatch | None
    ) -> None:
        """Declare tables, agree on the first dense parameters, bind model and optimizer."""
        if self._worker is not None:
            raise NotReadyError("fleet.init_worker() was called before; call fleet.stop_worker() first")
        is_averaged = strategy.dense == "allreduce"
        if is_averaged and servers.who.num_workers > 1 and self._model is not None:
            share_parameters(self._model, self._broadcast)
        self._has_left = False
        self._worker = start_worker(
            self._model,
            self._optimizer,
            servers.who,
            strategy,
            connect=servers.connect,
            dispatcher=dispatcher,
            average=self._average if is_averaged else None,
        )
        unstopped.joined(self._worker)

    def worker(self, what: str) -> Worker:
        """The worker; NotReadyError before `init_worker` and after `stop_worker`."""
        if self._has_left:
            raise has_left(what)
        if self._worker is None:
            raise NotReadyError(f"{what} needs the servers; call fleet.init_worker() first")
        return self._worker

    def stop_worker(self) -> None:
        """Send what is queued and leave the servers; the model has their dense parameters then."""
        if self._worker is None:
            return
        try:
            self._worker.stop()
            unstopped.stopped(self._worker)
        finally:
            self.let_go()

    def leave(self) -> None:
        """The script ends: see `unstopped`."""
        if self._worker is not None:
            unstopped.leave(self._worker)

    def let_go(self) -> None:
        """Unbind model and optimizer from a worker that has stopped, or is to be dropped."""
        if self._worker is None:
            return
        worker, self._worker = self._worker, None
        self._has_left = True
        worker.close()
        if self._optimizer is not None:
            self._optimizer.unbind()
        for module in () if self._model is None else self._model.modules():
            if isinstance(module, SparseModule):
                module.bind(None)

    def save_persistables(self, dirname: Folder, *others: Any) -> Path:
        """Write a checkpoint of everything on the servers."""
        worker = self.worker("fleet.save_persistables()")
        if any(other is not None for other in others):
            raise UsageTypeError(
                "fleet.save_persistables(): a job of modules takes one argument, save_persistables(dirname); "
                "executor and program belong to a job of programs"
            )
        return saving.save(worker, dirname)

    def save_inference_model(self, *arguments: Any, **named: Any) -> Path:
        """Write values only, as plain numpy files."""
        return saving.export(self.worker("fleet.save_inference_model()"), *arguments, **named)

    def read_trainer_variables(self, dirname: Folder) -> Callable[[], None]:  # noqa: ARG002
        """Nothing: everything that a checkpoint of modules has is on the servers."""
        return lambda: None
