"""The programs of a job in this process: those that `minimize` has made this worker's, and the trainers that run them.

With servers the program is cut by the transpiler's passes; in a collective job all-reduces are put into it. A job of
one process without servers has one inside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from fleet.errors import NotReadyError, NotSupportedError, UsageError
from fleet.ps.worker.sending.encoding import with_wire
from fleet.roles import Role
from fleet.runtime.saved import saving
from fleet.strategy import DistributedStrategy
from fleet.strategy.mode import Mode
from fleet_programs.executor.scope import Scope, global_scope, scope_guard
from fleet_programs.jobs import meta, running, strategy_options
from fleet_programs.jobs.optimizer import ProgramOptimizer
from fleet_programs.jobs.strategy_options import Strategy
from fleet_programs.jobs.trainer import Trainer, jobs
from fleet_programs.optimizer import Optimizer
from fleet_programs.program.notes import SERVERS_NOTE, TRAFFIC_NOTE
from fleet_programs.program.program import Program
from fleet_programs.transpiler.planning.plan import make_plan
from fleet_programs.transpiler.programs import Pair, for_collective, for_trainer

if TYPE_CHECKING:
    from fleet.ps.job.placement import Dispatch, Dispatcher
    from fleet.ps.worker.life.progress import ScriptProgress
    from fleet.ps.worker.worker import Worker
    from fleet.runtime.modules.servers import Servers


class ProgramJob:
    """The programs of a job in this process."""

    def __init__(self, servers: Servers, is_collective: bool) -> None:
        self._servers = servers
        self._who = servers.who
        self._is_collective = is_collective
        self._main: Program | None = None
        self._startup: Program | None = None
        self.origin: Program | None = None
        """The program as one process would run it."""
        self.trainers: WeakSet[Trainer] = WeakSet()
        """Those that run the programs of this job, one for each scope."""

    @property
    def main_program(self) -> Program:
        """This worker's main program; NotReadyError before `minimize`."""
        return self._made(self._main, "fleet_programs.main_program")

    @property
    def startup_program(self) -> Program:
        """This worker's startup program; NotReadyError before `minimize`."""
        return self._made(self._startup, "fleet_programs.startup_program")

    @property
    def model_dir(self) -> str | None:
        """The checkpoint that the server inside this process begins with."""
        return self._servers.model_dir

    @property
    def progress(self) -> ScriptProgress | None:
        """Where this worker is, for its next life; None if it will have none."""
        return self._servers.progress

    @staticmethod
    def _made(program: Program | None, what: str) -> Program:
        if program is None:
            raise NotReadyError(f"{what}: call fleet.distributed_optimizer(optimizer).minimize(loss) first")
        return program

    def distribute(self, optimizer: Optimizer, strategy: Strategy) -> ProgramOptimizer:
        """An optimizer whose `minimize` distributes the program."""
        strategy_options.check(strategy, self._is_collective)
        if self._is_collective and isinstance(strategy, DistributedStrategy):
            optimizer = meta.optimizer_of(optimizer, strategy)
        return ProgramOptimizer(self, optimizer, strategy)

    def rewrite(self, main: Program, startup: Program, trained: Pair, strategy: Strategy) -> None:
        """Make a program and its startup program this worker's; `trained` are both as one process would run them."""
        new = trained
        if self._who.role is Role.WORKER:
            distribute = self._for_collective if self._is_collective else self._for_servers
            new = distribute(trained, strategy)
        for program, made in zip((main, startup), new, strict=True):
            program.become(made)
            jobs[program.serial] = self
        self.origin, self._main, self._startup = trained[0], main, startup

    def _for_servers(self, trained: Pair, strategy: Strategy) -> Pair:
        plan = make_plan(*trained, strategy_options.for_servers(self._who, *trained, strategy))
        traffic = {}
        if isinstance(strategy, DistributedStrategy):
            if strategy.nonfinite_gradients == "skip" and plan.job.mode == Mode.GEO and plan.dense:
                raise NotSupportedError(
                    "strategy.nonfinite_gradients = 'skip': in geo mode the updates are in the program, which cannot "
                    "leave some of them out; use 'error', or another mode"
                )
            job = replace(plan.job, nonfinite=strategy.nonfinite_gradients)
            plan = replace(plan, job=with_wire(job, strategy.wire_configs))
            traffic = {name: getattr(strategy.a_sync_configs, name) for name in strategy_options.TRAFFIC}
        made = for_trainer(*trained, plan)
        for program in made:
            program.notes[TRAFFIC_NOTE] = traffic
        return made

    def _for_collective(self, trained: Pair, strategy: Strategy) -> Pair:
        who = self._who
        # The workers have met in fleet.init(); where nobody has told their endpoints, numbers will do.
        endpoints = [str(endpoint) for endpoint in who.worker_endpoints] or list(map(str, range(who.num_workers)))
        if isinstance(strategy, DistributedStrategy):
            return meta.for_workers(trained, strategy, endpoints, who.index)
        if who.num_workers == 1:
            return trained
        mode = "local_sgd" if strategy.collective_mode == "local_sgd" else "grad_allreduce"
        return for_collective(*trained, endpoints, who.index, mode)

    # A worker's life with servers.

    def init_worker(
        self,
        servers: Servers,  # noqa: ARG002 - the plan says which
        strategy: DistributedStrategy,  # noqa: ARG002 - the one of `distribute` is in the program
        dispatcher: Dispatcher | Dispatch | None,
    ) -> None:
        """Nothing is opened yet: the startup program gives parameters values, and then joins the servers."""
        self._made(self._main, "fleet.init_worker()")
        if dispatcher is not None:
            raise NotSupportedError(
                "fleet.init_worker(dispatcher): minimize() has dealt a program's parameters to the servers; give "
                "fleet.distributed_optimizer() a DistributeTranspilerConfig with split_method"
            )

    @property
    def has_joined(self) -> bool:
        """Whether a trainer of this worker has joined the servers."""
        return any(trainer.has_joined for trainer in self.trainers)

    def worker(self, what: str) -> Worker:
        """The worker that has joined the servers; it does so now if parameters have values."""
        return self._trainer(what).worker

    def _trainer(self, what: str) -> Trainer:
        """The trainer of the global scope, or the only one that has joined, or else the only one."""
        if SERVERS_NOTE not in self.main_program.notes:
            raise NotReadyError(f"{what} needs servers, and this job has none")
        if (here := self._here()) is not None:
            return here
        joined = [trainer for trainer in self.trainers if trainer.has_joined]
        if len(joined) > 1:
            raise UsageError(
                f"{what}: {len(joined)} scopes of this process have joined the servers; choose one of them: with "
                "static.scope_guard(scope)"
            )
        found = joined or list(self.trainers)
        if len(found) != 1:
            raise NotReadyError(
                f"{what} needs the servers; run the startup program first: exe.run(fleet_programs.startup_program)"
            )
        return found[0]

    def _here(self) -> Trainer | None:
        """The trainer of the global scope, unless it is another job's."""
        known = Trainer.at(global_scope())
        return known if known is not None and known.job in (None, self) else None

    def scope(self, what: str) -> Scope:
        """The scope that has the values of this job's programs."""
        has_servers = SERVERS_NOTE in self.main_program.notes
        return self._trainer(what).scope if has_servers else global_scope()

    def stop_worker(self) -> None:
        """Send what is queued and leave the servers, in every scope; the first error is raised when all have left."""
        failures = []
        for trainer in self._all():
            try:
                trainer.stop()
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def let_go(self) -> None:
        """Drop the connections of every scope."""
        for trainer in self._all():
            trainer.drop()

    def _all(self) -> list[Trainer]:
        here = self._here()
        return [*self.trainers, *([here] if here is not None and here not in self.trainers else [])]

    @staticmethod
    def leave() -> None:
        """The script ends: see `running`."""
        running.leave()

    def save_persistables(
        self, executor: Any, dirname: str | PathLike[str] | None = None, main_program: Program | None = None
    ) -> Path | None:
        """Write a checkpoint: with an executor, the trainer's own variables are in it; with the folder alone, not."""
        if dirname is None:
            return saving.save(self.worker("fleet.save_persistables()"), executor)
        from fleet_programs import io

        with scope_guard(self.scope("fleet.save_persistables()")):
            io.save_persistables(executor, dirname, main_program or self.main_program)
        return None

    def save_inference_model(self, *arguments: Any, **named: Any) -> Path | list[str]:
        """A program that leads from feeds to targets; with the folder alone, ids and rows as plain numpy files."""
        if len(arguments) + len(named) > 1:
            from fleet_programs.jobs.inference import save_inference_model

            return save_inference_model(self, *arguments, **named)
        return saving.export(self.worker("fleet.save_inference_model()"), *arguments, **named)

    def read_trainer_variables(self, dirname: str | PathLike[str]) -> Callable[[], None]:
        """The trainer's own variables of a checkpoint, checked; a call of the result takes them over."""
        from fleet_programs.jobs.trainer_variables import prepare_trainer_variables

        return prepare_trainer_variables(dirname, self.main_program, self.scope("fleet.load_model()"))
