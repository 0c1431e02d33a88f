"""The facade: a `Fleet` holds role, strategy and runtime; the functions of `fleet` are methods of one instance."""

from __future__ import annotations

import atexit
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, cast, overload

from fleet.errors import NotReadyError, NotSupportedError, RoleError, UsageError, UsageTypeError
from fleet.observe.ending import note_the_end
from fleet.roles import Identity, Role, RoleMaker, discover
from fleet.strategy import DistributedStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from os import PathLike
    from pathlib import Path
    from typing import Any, TypeVar

    import torch
    import torch.distributed as dist
    from torch import nn

    from fleet.collective.util import Util
    from fleet.ps.optimizer import DistributedOptimizer
    from fleet.ps.placement import Dispatch, Dispatcher
    from fleet.ps.worker import Worker
    from fleet.runtime.pairs import Pairs
    from fleet.runtime.programs.job import ProgramJob, ProgramOptimizer
    from fleet.runtime.programs.job import Strategy as ProgramStrategy
    from fleet.static.executor.executor import Executor
    from fleet.static.optimizer import Optimizer as StaticOptimizer
    from fleet.static.program import Program

    Model = TypeVar("Model", bound=nn.Module)
    Batch = TypeVar("Batch")

    util: Util
    device: torch.device
    main_program: Program
    startup_program: Program


class Fleet:
    """A process's view of its job. `fleet.init()` and its siblings act on one shared instance; tests make their own."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._role_maker: RoleMaker | None = None
        self._strategy: DistributedStrategy | None = None
        self._is_collective = False
        self._device: torch.device | None = None
        self._group: dist.ProcessGroup | None = None
        self._util: Util | None = None
        self._model: nn.Module | None = None
        self._optimizer: DistributedOptimizer | None = None
        self._worker: Worker | None = None
        self._model_dir: str | None = None
        self._pairs: Pairs | None = None
        self._programs: ProgramJob | None = None

    def init(
        self,
        role_maker: RoleMaker | None = None,
        is_collective: bool = False,
        strategy: DistributedStrategy | None = None,
    ) -> Fleet:
        """Learn who this process is and, in a collective job, join the other workers.

        Without a role maker the environment is asked (fleetrun, torchrun, Slurm, MPI); if it says nothing, this is a
        job of one worker. With `is_collective=True` (or a collective role maker) `torch.distributed` is ready
        afterwards; otherwise nothing is opened yet. May be called again with the same outcome; what is left out stays
        as it was.
        """
        if role_maker is not None and not isinstance(role_maker, RoleMaker):
            raise UsageTypeError(f"role_maker must be a RoleMaker, got {type(role_maker).__name__}")
        if not isinstance(is_collective, bool):
            raise UsageTypeError(f"is_collective must be True or False, got {is_collective!r}")
        if strategy is not None and not isinstance(strategy, DistributedStrategy):
            raise UsageTypeError(f"strategy must be a DistributedStrategy, got {type(strategy).__name__}")
        strategy = self._strategy if strategy is None else strategy
        maker = role_maker or self._role_maker or discover(is_collective)
        self._refuse_another_role(maker.identity)
        is_collective = is_collective or maker.is_collective or self._is_collective
        if strategy is not None:
            strategy.require_supported(is_collective)
            self._refuse_another_strategy(strategy)
        note_the_end()
        if is_collective:
            if maker.identity.role is Role.SERVER:
                raise RoleError(
                    f"{maker.identity.source}: a collective job has no servers; leave out is_collective=True"
                )
            from fleet.collective.group import start_process_group

            self._device, made = start_process_group(maker.identity)
            self._group = self._group if made is None else made
        self._role_maker, self._strategy, self._is_collective = maker, strategy, is_collective
        # Threads of a process group that is still there when the interpreter goes can abort the process.
        atexit.unregister(self.shutdown)
        atexit.register(self.shutdown)
        note_the_end()  # again: the last handler to be registered is the first to run
        return self

    def _refuse_another_role(self, identity: Identity) -> None:
        if self._role_maker is not None and self._role_maker.identity != identity:
            raise RoleError(
                f"fleet.init() was called before as {self._role_maker.to_string()}; "
                "call fleet.shutdown() before changing the role"
            )

    def shutdown(self) -> None:
        """Leave the process group if `init` made it, and forget the role. Done by itself when the script ends."""
        self._let_go()
        if self._util is not None:
            self._util.close()
        if self._is_collective:
            from fleet.collective.quiet import let_gloo_rest

            let_gloo_rest()
        if self._group is not None:
            from fleet.collective.group import stop_process_group

            stop_process_group(self._group)
        if self._role_maker is not None:
            self._role_maker.close()
        self._forget()

    @property
    def role(self) -> RoleMaker:
        if self._role_maker is None:
            raise NotReadyError("fleet is not initialised; call fleet.init() first")
        return self._role_maker

    def _identity(self) -> Identity:
        return self.role.identity

    @property
    def util(self) -> Util:
        """Collective calls for scripts: barrier, all_reduce, all_gather, get_file_shard."""
        if self._util is None:
            from fleet.collective.util import Util

            self._util = Util(self._identity())
        return self._util

    @property
    def device(self) -> torch.device:
        """The device this worker trains on: what fleetrun said, else a GPU if torch sees one."""
        if self._device is None:
            if self._role_maker is None:
                raise NotReadyError("fleet is not initialised; call fleet.init() first")
            if self.is_server():
                raise RoleError(f"{self._identity().name} trains nothing; fleet.device is a worker's")
            from fleet.collective.group import choose_device

            self._device = choose_device(self._identity())
        return self._device

    def is_first_worker(self) -> bool:
        """Whether this process is worker 0."""
        return self.role.is_first_worker()

    def is_worker(self) -> bool:
        """Whether this process trains."""
        return self.role.is_worker()

    def is_server(self) -> bool:
        """Whether this process holds parameters."""
        return self.role.is_server()

    def worker_index(self) -> int:
        """Index of this worker, from 0; on a server, the server's index (as in the original)."""
        return self.role.worker_index()

    def worker_num(self) -> int:
        """Number of workers in the job."""
        return self.role.worker_num()

    def server_index(self) -> int:
        """Index of this server, from 0; on a worker, the worker's index (as in the original)."""
        return self.role.server_index()

    def server_num(self) -> int:
        """Number of servers in the job."""
        return self.role.server_num()

    def worker_endpoints(self, to_string: bool = False) -> list[str] | str:
        """HOST:PORT of every worker, as a list or joined by commas."""
        endpoints = self.role.get_trainer_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def server_endpoints(self, to_string: bool = False) -> list[str] | str:
        """HOST:PORT of every server, as a list or joined by commas."""
        endpoints = self.role.get_pserver_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def local_rank(self) -> int:
        """Index of this worker among those of its machine."""
        return self._identity().local_rank

    def node_num(self) -> int:
        """Number of machines in the job."""
        return self._identity().num_nodes

    def barrier_worker(self) -> None:
        """Return when every worker has come here."""
        self.util.barrier("worker")

    def is_collective(self) -> bool:
        """Whether workers train by collectives, without servers."""
        return self._is_collective

    def distributed_model(self, model: Model) -> Model:
        """The model to train.

        In a collective job it comes back as a DistributedModel: on `fleet.device`, with the parameters of worker 0,
        its gradients averaged over the workers as the strategy says. Beside servers it comes back as it is; its
        `fleet.nn` modules get their tables in `init_worker`.
        """
        if self._is_collective:
            return cast("Model", self._collective().add_model(model))
        self._model = model
        return model

    @overload
    def distributed_optimizer(
        self, optimizer: torch.optim.Optimizer, strategy: DistributedStrategy | None = None
    ) -> torch.optim.Optimizer: ...

    @overload
    def distributed_optimizer(
        self, optimizer: StaticOptimizer, strategy: ProgramStrategy | None = None
    ) -> ProgramOptimizer: ...

    def distributed_optimizer(self, optimizer: Any, strategy: ProgramStrategy | None = None) -> Any:
        """The optimizer to call `step()` on; it may be made before or after the distributed model.

        One of `fleet.static.optimizer` comes back with a `minimize(loss)` that makes the program of the loss this
        worker's part of the job.

        Beside servers it sends gradients there, where `optimizer`'s rule is applied: torch.optim's SGD, Adagrad, Adam,
        AdamW, Adamax and RMSprop work, with all their arguments. Learning-rate schedules may be made of either
        optimizer. A strategy given here replaces the one of `init`.
        """
        if _is_of_programs(optimizer):
            if isinstance(strategy, DistributedStrategy):
                self._replace_strategy(strategy)
            return self._program_job().distribute(optimizer, strategy or self._strategy or DistributedStrategy())
        if strategy is not None:
            self._replace_strategy(cast("DistributedStrategy", strategy))
        if self._is_collective:
            return self._collective().add_optimizer(optimizer)
        from fleet.ps.optimizer import DistributedOptimizer

        self._optimizer = DistributedOptimizer(optimizer)
        return self._optimizer

    def _replace_strategy(self, strategy: DistributedStrategy) -> None:
        strategy.require_supported(self._is_collective)
        self._refuse_another_strategy(strategy)
        self._strategy = strategy

    def _refuse_another_strategy(self, strategy: DistributedStrategy) -> None:
        if self._pairs is not None and strategy != self._pairs.strategy:
            raise UsageError(
                "fleet.distributed_model() was called with another strategy; give the strategy to fleet.init(), "
                "or call fleet.distributed_optimizer() first"
            )

    def _collective(self) -> Pairs:
        if self._pairs is None:
            from fleet.runtime.pairs import Pairs

            self._pairs = Pairs(self._identity(), self._strategy or DistributedStrategy(), self.device)
        return self._pairs

    def _program_job(self) -> ProgramJob:
        if self._model_dir is not None and not self._identity().server_endpoints:
            raise NotSupportedError(
                f"fleet.init_server({self._model_dir!r}): a program without servers loads a checkpoint after its "
                "startup program has run; call fleet.load_model(dirname) there"
            )
        if self._programs is None:
            from fleet.runtime.programs.job import ProgramJob

            self._programs = ProgramJob(self._identity(), self._is_collective)
        return self._programs

    @property
    def main_program(self) -> Program:
        """The program to train, after `minimize` of a distributed optimizer."""
        return self._program_job().main_program

    @property
    def startup_program(self) -> Program:
        """The program to run first, after `minimize` of a distributed optimizer."""
        return self._program_job().startup_program

    def join(self) -> AbstractContextManager[None]:
        """Inside, workers of a collective job may have different numbers of batches; see `fleet.data.shard`."""
        if self._is_collective and self.worker_num() > 1:
            return self._collective().join()
        return nullcontext()  # servers take what comes

    # The parameter server.

    def init_server(self, model_dir: str | PathLike[str] | None = None) -> None:
        """Prepare this server; with `model_dir` it begins with a checkpoint of `save_persistables`."""
        if not self._identity().server_endpoints:
            self._model_dir = None if model_dir is None else str(model_dir)  # the one in this process will load it
            if self._programs is not None:
                self._program_job()
            return
        if not self.is_server():
            raise RoleError(f"{self._identity().name} is no server; call fleet.init_server() where fleet.is_server()")
        self._model_dir = None if model_dir is None else str(model_dir)

    def run_server(self) -> None:
        """Serve until every worker has left, or until SIGTERM. Prints `Server listening on IP:PORT` when ready."""
        who = self._identity()
        if who.role is not Role.SERVER:
            raise RoleError(f"{who.name} is no server; call fleet.run_server() where fleet.is_server()")
        from fleet import env
        from fleet.ps.server import serve
        from fleet.ps.service import Service

        device = "cuda" if env.FLEET_DEVICE.get() == "CUDA" else "cpu"
        service = Service(device=device, model_dir=self._model_dir)
        serve(service, who.server_endpoints[who.index], env.FLEET_JOB_TOKEN.get())

    def init_worker(self, dispatcher: Dispatcher | Dispatch | None = None) -> None:
        """Join the servers: declare tables, agree on the first dense parameters (worker 0's are everybody's).

        Without servers in the job, the tables live in this process. `dispatcher` says which server holds which block of
        the dense parameters; without it they go round robin.
        """
        who = self._identity()
        if who.role is not Role.WORKER:
            raise RoleError(f"{who.name} is no worker; call fleet.init_worker() where fleet.is_worker()")
        if self._worker is not None:
            raise NotReadyError("fleet.init_worker() was called before; call fleet.stop_worker() first")
        if self._is_collective:
            raise UsageError("fleet.init_worker() joins servers, and a collective job has none; leave it out")
        if self._programs is not None:
            self._programs.init_worker()
            return
        from fleet.runtime.join import share_parameters, start_worker
        from fleet.runtime.servers import connect

        strategy = self._strategy or DistributedStrategy()
        is_averaged = strategy.dense == "allreduce"
        if is_averaged and who.num_workers > 1 and self._model is not None:
            share_parameters(self._model, self.util.mean_, who)
        self._worker = start_worker(
            self._model,
            self._optimizer,
            who,
            strategy,
            connect=lambda: connect(who, self._model_dir),
            dispatcher=dispatcher,
            average=self.util.mean_ if is_averaged else None,
        )

    def stop_worker(self) -> None:
        """Send what is queued, take leave of the servers. Afterwards the model has the servers' dense parameters."""
        if self._programs is not None:
            self._programs.stop_worker()
        if self._worker is None:
            return
        worker = self._worker
        try:
            worker.stop()
        finally:
            self._let_go()

    def save_persistables(
        self,
        executor: Executor | str | PathLike[str],
        dirname: str | PathLike[str] | None = None,
        main_program: Program | None = None,
    ) -> Path | None:
        """Write a checkpoint of everything on the servers; one worker calls it, on a file system that all share.

        For modules: `save_persistables(dirname)`. For programs: `save_persistables(executor, dirname)`; without servers
        it is one file for each variable.
        """
        if self._programs is not None and dirname is not None:
            from fleet.static import io

            io.save_persistables(cast("Executor", executor), dirname, main_program or self.main_program)
            return None
        from fleet.runtime import saving

        return saving.save(self._joined("fleet.save_persistables()"), cast("str", executor))

    def load_model(self, dirname: str | PathLike[str]) -> int:
        """Replace everything on the servers by a checkpoint, which any number of servers may have written.

        Every worker calls it: worker 0 lets the servers load, the others wait for that and take over what was loaded.
        Returns the number of rows.
        """
        from fleet.runtime import saving

        worker = self._joined("fleet.load_model()")
        if self._programs is not None:
            self._programs.load_own(dirname)
        if self.worker_num() == 1:
            return saving.load(worker, dirname)
        worker.mode.flush()
        self.barrier_worker()  # nothing that was computed before may reach what is loaded
        rows = saving.load(worker, dirname) if self.is_first_worker() else 0
        rows = int(self.util.all_reduce(rows))
        if not self.is_first_worker():
            saving.take_over(worker)
        self.barrier_worker()  # a step of one would be another version for those who have not looked yet
        return rows

    def save_inference_model(self, *args: Any, **more: Any) -> Path | list[str]:
        """Write values only, as plain numpy files, for serving.

        For modules: `save_inference_model(dirname)`. For programs: `save_inference_model(executor, dirname,
        feeded_var_names, target_vars, main_program=None)`, which writes the part of the program that leads from the
        feeds to the targets and its parameters, those on servers included; returns the names of the targets.
        """
        if self._programs is not None and len(args) + len(more) > 1:
            from fleet.runtime.programs.inference import save_inference_model

            return save_inference_model(self._programs, *args, **more)
        from fleet.runtime import saving

        return saving.export(self._joined("fleet.save_inference_model()"), *args, **more)

    def shrink(
        self,
        table: str | None = None,
        *,
        unseen_steps: int = 0,
        score_below: float | None = None,
        decay: float = 0.0,
    ) -> int:
        """Delete rows not trained for more than `unseen_steps` and, where clicks are counted, those of a low score.

        `decay` multiplies shows and clicks first. Returns how many rows were deleted, in one table or in all.
        """
        from fleet.runtime import saving

        worker = self._joined("fleet.shrink()")
        return saving.shrink(worker, table, unseen_steps=unseen_steps, score_below=score_below, decay=decay)

    def server_stats(self) -> list[dict[str, Any]]:
        """What each server holds and has done: rows and bytes of each table, pulls, pushes, staleness."""
        from fleet.runtime import saving

        return saving.stats(self._joined("fleet.server_stats()"))

    def flush(self) -> None:
        """Return when everything this worker has sent was applied."""
        self._joined("fleet.flush()").mode.flush()

    def prefetch(
        self, loader: Iterable[Batch], model: nn.Module, keys: Callable[[Batch], object] | None = None
    ) -> Iterator[Batch]:
        """Iterate over batches and pull the rows of the next one while this one is computed.

        `keys(batch)` gives what the model's sparse module will be called with; see fleet.runtime.prefetch.
        """
        from fleet.runtime.prefetch import prefetch

        return prefetch(loader, model, keys)

    def _joined(self, what: str) -> Worker:
        if self._programs is not None:
            return self._programs.trainer(what).worker
        if self._worker is None:
            raise NotReadyError(f"{what} needs the servers; call fleet.init_worker() first")
        return self._worker

    def _let_go(self) -> None:
        """Unbind model and optimizer from a worker that has stopped, or is to be dropped."""
        if self._worker is None:
            return
        from fleet.nn.sparse import SparseModule

        worker, self._worker = self._worker, None
        worker.close()
        if self._optimizer is not None:
            self._optimizer.unbind()
        for module in () if self._model is None else self._model.modules():
            if isinstance(module, SparseModule):
                module.bind(None)


def _is_of_programs(optimizer: object) -> bool:
    """Whether an optimizer is one of `fleet.static`, which is not imported to find out."""
    module = sys.modules.get("fleet.static.optimizer.base")
    return module is not None and isinstance(optimizer, module.Optimizer)


fleet = Fleet()
"""The one shared instance."""

init = fleet.init
shutdown = fleet.shutdown
is_first_worker = fleet.is_first_worker
is_worker = fleet.is_worker
is_server = fleet.is_server
worker_index = fleet.worker_index
worker_num = fleet.worker_num
server_index = fleet.server_index
server_num = fleet.server_num
worker_endpoints = fleet.worker_endpoints
server_endpoints = fleet.server_endpoints
local_rank = fleet.local_rank
node_num = fleet.node_num
barrier_worker = fleet.barrier_worker
is_collective = fleet.is_collective
join = fleet.join
distributed_model = fleet.distributed_model
distributed_optimizer = fleet.distributed_optimizer
init_server = fleet.init_server
run_server = fleet.run_server
init_worker = fleet.init_worker
stop_worker = fleet.stop_worker
save_persistables = fleet.save_persistables
load_model = fleet.load_model
save_inference_model = fleet.save_inference_model
shrink = fleet.shrink
server_stats = fleet.server_stats
flush = fleet.flush
prefetch = fleet.prefetch


def __getattr__(name: str) -> object:
    if name in (
        "util",
        "device",
        "main_program",
        "startup_program",
    ):  # resolved when used: the first imports torch, the second exists only after init
        return getattr(fleet, name)
    raise AttributeError(f"module 'fleet.api' has no attribute {name!r}")
