"""`DistributedInfer`: a program that is evaluated while the rows of its tables stay on the servers."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet import checkpoint
from fleet.api import fleet as shared
from fleet.errors import NotReadyError, NotSupportedError
from fleet.strategy import DistributedStrategy
from fleet_programs import optimizer
from fleet_programs.jobs.current import main_program_of
from fleet_programs.program.program import Program, default_main_program, default_startup_program

if TYPE_CHECKING:
    from fleet_programs.executor.executor import Executor
    from fleet_programs.program.variable import Variable

_OPTIMIZERS: dict[str, Callable[[dict[str, Any]], optimizer.Optimizer]] = {
    "sgd": lambda args: optimizer.Momentum(0.0, args["momentum"]) if args.get("momentum") else optimizer.SGD(0.0),
    "adagrad": lambda _: optimizer.Adagrad(0.0),
    "adam": lambda _: optimizer.Adam(0.0),
    "adamax": lambda _: optimizer.Adamax(0.0),
    "ftrl": lambda _: optimizer.Ftrl(0.0),
}
"""Rules of servers, and optimizers whose parameters have the same state; at rate 0, for nothing is trained."""


class DistributedInfer:
    """Evaluation of a program whose tables are too large for one process.

    infer = DistributedInfer(main_program, startup_program)
    infer.init_distributed_infer_env(exe, loss, dirname="checkpoint")
    exe.run(infer.get_dist_infer_program(), feed=..., fetch_list=[...])
    """

    def __init__(self, main_program: Program | None = None, startup_program: Program | None = None) -> None:
        self._trained = default_main_program() if main_program is None else main_program
        self._startup = default_startup_program() if startup_program is None else startup_program
        self._evaluated = self._trained.clone(for_test=True)

    def init_distributed_infer_env(
        self,
        exe: Executor,
        loss: Variable,
        role_maker: Any = None,
        dirname: str | PathLike[str] | None = None,
    ) -> None:
        """Begin a job for it if this process is in none: servers serve until all workers have left, workers join them.

        `dirname` is a checkpoint of `fleet.save_persistables`; a job that trains already goes on with what it has.
        """
        if _is_begun():
            return
        shared.init(role_maker)
        strategy = DistributedStrategy()
        strategy.a_sync = True
        shared.distributed_optimizer(_optimizer(dirname), strategy).minimize(loss, startup_program=self._startup)
        if shared.is_server():
            shared.init_server(dirname)
            shared.run_server()
            return
        if not shared.server_num():  # the tables are in this process
            shared.init_server(dirname)
        shared.init_worker()
        exe.run(self._startup)

    def get_dist_infer_program(self) -> Program:
        """The program without backward and updates; run in the scope of the job, its lookups ask the servers."""
        return self._evaluated


def _optimizer(dirname: str | PathLike[str] | None) -> optimizer.Optimizer:
    """One that fits a checkpoint, since servers take up the state of its optimizer with the values."""
    if dirname is None:
        return optimizer.SGD(0.0)
    job = checkpoint.read_manifest(Path(dirname)).job
    rules = [*job["dense"]["groups"], *(table["rule"] for table in job["tables"])]
    name = rules[0]["name"] if rules else "sgd"
    if name not in _OPTIMIZERS:
        raise NotSupportedError(
            f"DistributedInfer: {dirname} was trained by {name}; begin the job with that optimizer before: "
            "fleet.init(), fleet.distributed_optimizer(optimizer).minimize(loss), fleet.init_worker()"
        )
    return _OPTIMIZERS[name](rules[0]["args"] if rules else {})


def _is_begun() -> bool:
    try:
        return main_program_of(shared) is not None
    except NotReadyError:
        return False
