"""`fleet.distributed_optimizer(optimizer).minimize(loss)` over programs: the default programs become this worker's.

Beside servers the program is cut by the transpiler's passes; in a collective job all-reduces are put into it. A job of
one process without servers has one inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from fleet.errors import NotReadyError, NotSupportedError, UsageTypeError
from fleet.ps.placement import MIN_BLOCK
from fleet.roles import Role
from fleet.runtime.programs.trainer import KEY, PLAN_NOTE, TRAFFIC_NOTE, Trainer
from fleet.static.executor.scope import global_scope
from fleet.static.optimizer import Optimizer
from fleet.static.program import Program, default_startup_program
from fleet.static.variable import Variable
from fleet.strategy import DistributedStrategy
from fleet.strategy.mode import MODE_FIELDS, Mode
from fleet.transpiler.arguments import Arguments, read
from fleet.transpiler.config import DistributeTranspilerConfig
from fleet.transpiler.plan import Plan, make_plan
from fleet.transpiler.programs import for_collective, for_trainer, refuse_transpiled

if TYPE_CHECKING:
    from fleet.roles import Identity

TRAFFIC = (
    "max_merge_var_num",
    "send_queue_size",
    "independent_recv_thread",
    "min_send_grad_num_before_recv",
    "send_wait_times",
)
HONOURED = frozenset(
    {
        *MODE_FIELDS,
        *(f"a_sync_configs.{name}" for name in TRAFFIC),
        "nonfinite_gradients",
        "localsgd",
        "localsgd_configs.begin_step",
        # They change how gradients travel, and a program sends all of them at once.
        "fuse_all_reduce_ops",
        "fuse_grad_size_in_MB",
        "last_comm_group_size_MB",
        "find_unused_parameters",
    }
)
"""Fields of a strategy that programs know."""

Strategy = DistributedStrategy | DistributeTranspilerConfig


class ProgramJob:
    """The programs of a job in this process."""

    def __init__(self, who: Identity, is_collective: bool) -> None:
        self._who = who
        self._is_collective = is_collective
        self._main: Program | None = None
        self._startup: Program | None = None
        self.origin: Program | None = None
        """The program as one process would run it."""

    @property
    def main_program(self) -> Program:
        return self._made(self._main, "fleet.main_program")

    @property
    def startup_program(self) -> Program:
        return self._made(self._startup, "fleet.startup_program")

    @staticmethod
    def _made(program: Program | None, what: str) -> Program:
        if program is None:
            raise NotReadyError(f"{what}: call fleet.distributed_optimizer(optimizer).minimize(loss) first")
        return program

    def distribute(self, optimizer: Optimizer, strategy: Strategy) -> ProgramOptimizer:
        """An optimizer whose `minimize` distributes the program."""
        if isinstance(strategy, DistributedStrategy):
            check_strategy(strategy)
        return ProgramOptimizer(self, optimizer, strategy)

    def rewrite(self, main: Program, startup: Program, strategy: Strategy) -> None:
        """Turn a trained program and its startup program into those of this worker."""
        refuse_transpiled(main)
        self.origin = main.clone()
        if self._who.role is Role.WORKER:
            if self._is_collective:
                self._rewrite_collective(main, startup, strategy)
            else:
                self._rewrite_for_servers(main, startup, strategy)
        self._main, self._startup = main, startup

    def _rewrite_for_servers(self, main: Program, startup: Program, strategy: Strategy) -> None:
        asked = self._asked(main, startup, strategy)
        plan = make_plan(main, startup, asked)
        traffic = {}
        if isinstance(strategy, DistributedStrategy):
            plan = replace(plan, job=replace(plan.job, nonfinite=strategy.nonfinite_gradients))
            traffic = {name: getattr(strategy.a_sync_configs, name) for name in TRAFFIC}
        new_main, new_startup = for_trainer(main, startup, plan)
        for program in (new_main, new_startup):
            program.notes[TRAFFIC_NOTE] = traffic
        main.become(new_main)
        startup.become(new_startup)

    def _asked(self, main: Program, startup: Program, strategy: Strategy) -> Arguments:
        who = self._who
        endpoints = tuple(str(endpoint) for endpoint in who.server_endpoints)
        if isinstance(strategy, DistributeTranspilerConfig) and endpoints:
            named = {
                "trainer_id": who.index,
                "program": main,
                "startup_program": startup,
                "pservers": ",".join(endpoints),
                "trainers": who.num_workers,
            }
            return read((), named, strategy)
        asked = Arguments(who.index, main, startup, "pserver", endpoints, who.num_workers, min_block_size=MIN_BLOCK)
        if isinstance(strategy, DistributeTranspilerConfig) or strategy.mode is Mode.OFF:
            return asked
        k_steps = strategy.a_sync_configs.k_steps if strategy.mode is Mode.GEO else 0
        return replace(asked, mode=strategy.mode, k_steps=k_steps)

    def _rewrite_collective(self, main: Program, startup: Program, strategy: Strategy) -> None:
        who = self._who
        if who.num_workers == 1:
            return
        # The workers have met in fleet.init(); where nobody has told their endpoints, numbers will do.
        endpoints = [str(endpoint) for endpoint in who.worker_endpoints] or list(map(str, range(who.num_workers)))
        if isinstance(strategy, DistributedStrategy):
            is_local = strategy.localsgd
        else:
            is_local = strategy.collective_mode == "local_sgd"
        mode = "local_sgd" if is_local else "grad_allreduce"
        new_main, new_startup = for_collective(main, startup, endpoints, who.index, mode)
        main.become(new_main)
        startup.become(new_startup)

    # A worker's life beside servers.

    def init_worker(self) -> None:
        """Nothing is opened yet: the startup program gives parameters values, and then joins the servers."""
        self._made(self._main, "fleet.init_worker()")

    def trainer(self, what: str) -> Trainer:
        """The trainer that has joined the servers; it does so now if parameters have values."""
        program = self.main_program
        if PLAN_NOTE not in program.notes:
            raise NotReadyError(f"{what} needs servers, and this job has none")
        known: Trainer | None = global_scope().attached.get(KEY)
        if known is None:
            raise NotReadyError(
                f"{what} needs the servers; run the startup program first: exe.run(fleet.startup_program)"
            )
        return known

    def stop_worker(self) -> None:
        """Send what is queued and leave the servers."""
        known: Trainer | None = global_scope().attached.get(KEY)
        if known is not None:
            known.stop()

    def load_own(self, dirname: str | PathLike[str]) -> None:
        """Take the trainer's own variables from a checkpoint that the servers load."""
        from fleet.runtime.programs.saving import load_own

        load_own(dirname, self.main_program, global_scope())

    @property
    def plan(self) -> Plan | None:
        """What is on servers; None in a job without any."""
        note = self.main_program.notes.get(PLAN_NOTE)
        return None if note is None else Plan.from_note(note)


class ProgramOptimizer:
    """Stands for an optimizer of programs; everything but `minimize` is its own."""

    def __init__(self, job: ProgramJob, inner: Optimizer, strategy: Strategy) -> None:
        self._job = job
        self.inner = inner
        self._strategy = strategy

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: Any = None,
        scopes: Any = None,
    ) -> tuple[Any, Any]:
        """Add backward and optimizer to the loss's program, then make it, and the startup program, this worker's."""
        if scopes is not None:
            raise NotSupportedError("minimize: scopes must be left out; exe.run takes the scope")
        for name, value in (("loss", loss), ("startup_program", startup_program)):
            if isinstance(value, list | tuple):
                raise UsageTypeError(f"minimize: {name} must be one, got a list of {len(value)}")
        made = self.inner.minimize(loss, startup_program, parameter_list, no_grad_set)
        self._job.rewrite(loss.block.program, startup_program or default_startup_program(), self._strategy)
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def check_strategy(strategy: DistributedStrategy) -> None:
    """NotSupportedError for a field that programs do not know."""
    for leaf in strategy.changed():
        if leaf.dotted == "localsgd_configs.k_steps":
            raise NotSupportedError(
                "strategy.localsgd_configs.k_steps: programs average at every step; train a torch module for longer "
                "intervals"
            )
        if leaf.dotted not in HONOURED:
            raise NotSupportedError(
                f"strategy.{leaf.dotted} is not built for programs; leave it at its default "
                f"({leaf.field.show(leaf.field.default)}), or train a torch module"
            )
