"""A job of torch modules with servers: one model, its optimizers, and the worker that they are bound to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from fleet.collective.parts.sync_batch_norm import synchronise
from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet.job.stopping import stopping
from fleet.jobfiles.ending import end_in_vain
from fleet.nn.sparse import SparseModule
from fleet.ps.together.resharding import Background, check_reshard, give_up_former
from fleet.ps.worker.calling.joining import LostStateError
from fleet.ps.worker.optimizer import ServerOptimizer
from fleet.ps.worker.worker import has_left
from fleet.runtime.modules import model_calls, presence
from fleet.runtime.modules.start_worker import start_worker
from fleet.runtime.saved import saving
from fleet.runtime.saved.once_for_all import OneWriter
from fleet.strategy.mode import Mode

if TYPE_CHECKING:
    from fleet.ps.job.placement import Dispatch, Dispatcher
    from fleet.ps.worker.calling.client import Client
    from fleet.ps.worker.life.membership import HandedBack
    from fleet.ps.worker.worker import Worker
    from fleet.runtime.modules.servers import Servers
    from fleet.strategy import DistributedStrategy

Folder = str | PathLike[str]


class ModuleJob:
    """The model and the optimizers of a job in this process.

    `average` gives a tensor its mean over the workers, `add_up` its sum.
    """

    def __init__(self, average: Callable[[torch.Tensor], None], add_up: Callable[[torch.Tensor], None]) -> None:
        self._average = average
        self._add_up = add_up
        self._worker: Worker | None = None
        self._has_left = False
        self._model: nn.Module | None = None
        self._strategy: DistributedStrategy | None = None
        self._optimizers: list[ServerOptimizer] = []
        self.before_leaving: list[Callable[[], None]] = []
        """What is to be done before this worker takes leave of the servers."""
        self._num_meetings = 0
        self._resharding: Background | None = None
        self._writer = OneWriter()

    def add_model(self, model: nn.Module) -> None:
        """Train this model; UsageError if there is another, unless its worker has left the servers."""
        if self._model not in (None, model) and not self._has_left:
            raise UsageError(
                f"fleet.distributed_model() was given a {type(self._model).__name__} before, and a job has one model; "
                "put both into one, nn.ModuleList([first, second]), or call fleet.stop_worker() first to begin anew"
            )
        if self._worker is not None and self._model is None:
            raise NotReadyError(
                "fleet.distributed_model() must come before fleet.init_worker(), which tells the servers what is "
                "trained"
            )
        if self._model is not model:
            self._optimizers = [one for one in self._optimizers if not self._has_left]  # those of a job that is over
        self._model = model
        model_calls.watch(model)
        if self._worker is None and any(is_lazy(parameter) for parameter in model.parameters()):
            for module in model.modules():
                if isinstance(module, SparseModule):
                    module.run_dry()  # a batch must go through before `init_worker`, which needs shapes

    def add_optimizer(self, users: torch.optim.Optimizer) -> ServerOptimizer:
        """The optimizer to train with, in the place of the user's: its step runs on the servers."""
        if self._worker is not None:
            raise NotReadyError(
                "fleet.distributed_optimizer() must come before fleet.init_worker(), which tells the servers what is "
                "trained"
            )
        optimizer = ServerOptimizer(users, self)
        own = {id(parameter) for group in users.param_groups for parameter in group["params"]}
        known = [
            one
            for one in self._optimizers
            if one.inner is not users
            and not (self._has_left and any(id(old) in own for group in one.param_groups for old in group["params"]))
        ]
        self._optimizers = [*known, optimizer]
        return optimizer

    def init_worker(
        self, servers: Servers, strategy: DistributedStrategy, dispatcher: Dispatcher | Dispatch | None
    ) -> None:
        """Declare the model, agree on its first values, bind model and optimizers."""
        if self._worker is not None:
            raise NotReadyError("fleet.init_worker() was called before; call fleet.stop_worker() first")
        if strategy.sync_batch_norm and servers.who.num_workers > 1 and self._model is not None:
            synchronise(self._model, torch.device("cpu"), self._add_up)
        self._has_left = False
        give_up_former(servers.who.index)
        servers.refresh()
        membership = None if servers.progress is None else servers.progress.membership
        if membership is not None:
            membership.watch()
        try:
            self._worker = start_worker(
                self._model,
                self._optimizers,
                servers.who,
                strategy,
                connect=servers.connect,
                reach=servers.reach if servers.who.server_endpoints else None,
                layout=servers.layout,
                dispatcher=dispatcher,
                average=self._average,
                progress=servers.progress,
                begin_reshard=self._begin_reshard,
            )
        except LostStateError as error:
            if servers.progress is None:
                raise
            end_in_vain(error)  # in a durable job this worker would be started again, and meet the same
        if membership is not None:
            membership.join(self._worker, self.stop_worker)
        presence.joined(self._worker)
        if strategy.publish and servers.who.index == 0:
            saving.publish(self._worker, strategy.publish, strategy.publish_every_s)
        if servers.progress is not None:
            stopping.begin(self._is_kept)
        strategy.close("fleet.init_worker()")
        self._strategy = strategy

    def _is_kept(self) -> bool:
        """Between two steps of a worker of a durable job that was told to stop: its next life goes on from here."""
        if self._worker is not None:
            self._worker.policy.flush()
        return True

    @property
    def has_joined(self) -> bool:
        """Whether this worker has joined the servers, also if it has left them since."""
        return self._worker is not None or self._has_left

    @property
    def client(self) -> Client | None:
        """This worker's connections to the servers, while it has them."""
        return None if self._worker is None else self._worker.client

    def worker(self, what: str) -> Worker:
        """The worker; NotReadyError before `init_worker` and after `stop_worker`, UsageError in a fork of it."""
        if self._has_left:
            raise has_left(what)
        if self._worker is None:
            raise NotReadyError(f"{what} needs the servers; call fleet.init_worker() first")
        self._worker.refuse_fork(what)
        return self._worker

    def catch_up(self, meet: Callable[[], None]) -> None:
        """Take the servers' dense values once they have those of all workers; in sync mode, workers always have them.

        `meet` returns when every worker has come there.
        """
        if self._worker is None or self._worker.client.job.mode == Mode.SYNC:
            return
        self._worker.policy.flush()
        meet()
        self._worker.policy.refresh()

    def stop_worker(self, back: Sequence[HandedBack] | None = None) -> None:
        """Send what is queued and leave the servers; the model has their dense parameters then.

        `back`: the worker is drained, and hands back what it has not read.
        """
        if self._worker is None:
            return
        self._worker.refuse_fork("fleet.stop_worker()")
        try:
            stopping.end()
            for finish in self.before_leaving:
                finish()
            self._worker.stop(back)
            presence.stopped(self._worker)
        finally:
            self.let_go()

    def leave(self) -> None:
        """Leave the servers as the script ends: see `presence`."""
        if self._worker is not None:
            presence.leave(self._worker)

    def name_meetings(self, what: str) -> str:
        """A name for meetings of all workers, who ask for names in the same order."""
        self._num_meetings += 1
        return f"{what}/{self._num_meetings}"

    def let_go(self) -> None:
        """Unbind model and optimizer from a worker that has stopped, or is to be dropped."""
        if self._worker is None:
            return
        worker, self._worker = self._worker, None
        self._has_left = True
        worker.close()
        if self._strategy is not None:
            self._strategy.close("")
        for optimizer in self._optimizers:
            optimizer.unbind()
        for module in () if self._model is None else self._model.modules():
            if isinstance(module, SparseModule):
                module.bind(None)

    def reshard(self, num_servers: int, *, wait: bool) -> None:
        """Have worker 0 change the number of servers while all train on. `wait`: worker 0 returns when it is done."""
        worker = self.worker("fleet.reshard()")
        layouts = check_reshard(worker.client, num_servers)
        progress = worker.progress
        turn = 0 if progress is None else progress.turns.take("reshard")
        if worker.client.worker != 0 or (progress is not None and progress.is_past("reshard", turn)):
            return
        if layouts.undecided is not None or (self._resharding is not None and self._resharding.is_alive()):
            raise UsageError("fleet.reshard(): the number of servers is being changed already; wait until that is over")
        self._begin_reshard(num_servers)
        if wait and self._resharding is not None:
            self._resharding.join()
            if self._resharding.failure is not None:
                raise self._resharding.failure

    def _begin_reshard(self, num_servers: int) -> None:
        if self._worker is None or (self._resharding is not None and self._resharding.is_alive()):
            return
        self._resharding = Background(self._worker.client, num_servers)
        self._resharding.start()

    def save_persistables(self, *arguments: Any, **named: Any) -> Path:
        """Write a checkpoint of everything on the servers; `incremental`: of what changed since the last one there."""
        call = "fleet.save_persistables()"
        worker = self.worker(call)
        incremental = named.pop("incremental", False)
        if type(incremental) is not bool:
            raise UsageTypeError(f"{call}: incremental must be True or False, got {incremental!r}")
        if len(arguments) + len(named) > 1:
            raise UsageTypeError(f"{call} takes one argument for modules; write fleet.save_persistables(dirname)")
        dirname = _folder_of(call, arguments, named)
        save = partial(saving.save, worker, dirname, incremental=incremental)
        return self._writer.save(worker, call, dirname, lambda: _between_steps(worker, save))

    def save_inference_model(self, *arguments: Any, **named: Any) -> Path:
        """Write values only, as plain numpy files."""
        call = "fleet.save_inference_model()"
        worker = self.worker(call)
        export = partial(saving.export, worker, *arguments, **named)
        folder = _folder_of(call, arguments, named)
        return self._writer.save(worker, call, folder, lambda: _between_steps(worker, export))

    def read_trainer_variables(self, dirname: Folder) -> Callable[[], None]:  # noqa: ARG002
        """Nothing: everything that a checkpoint of modules has is on the servers."""
        return lambda: None


def _between_steps(worker: Worker, write: Callable[[], Path]) -> Path:
    """Write while no step of all workers is made; where they do not come and go, none is made without this worker."""
    membership = None if worker.progress is None else worker.progress.membership
    with nullcontext() if membership is None else membership.between_all_steps():
        return write()


def _folder_of(call: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Folder:
    """The folder among the arguments of a call that needs one."""
    folder = arguments[0] if arguments else named.get("dirname", named.get("folder"))
    if not isinstance(folder, str | PathLike):
        raise UsageTypeError(f"{call} takes the folder to write, got {folder!r}")
    return folder
