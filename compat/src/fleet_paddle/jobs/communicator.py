"""`Communicator`: what brings a trainer's gradients to the servers and their parameters back.

Here a trainer's program does that itself, in every mode, in threads of its own where the mode has any. The object that
scripts start and stop says from when on that is expected, and that all which was sent has arrived.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet.strategy import Mode
from fleet_paddle.strategies.runtime_config import TRAFFIC, TrainerRuntimeConfig
from fleet_programs.executor.scope import global_scope
from fleet_programs.jobs.trainer import Trainer
from fleet_programs.program.notes import SERVERS_NOTE, TRAFFIC_NOTE
from fleet_programs.program.program import Program
from fleet_programs.transpiler.planning.plan import Plan


class AsyncMode:
    """The modes of version 1.6 and 1.7, by number."""

    ASYNC = 1
    HALF_ASYNC = 2
    GEO_SGD = 3


_NUMBERED = (Mode.SYNC, Mode.ASYNC, Mode.HALF_ASYNC, Mode.GEO)


class Communicator:
    """The traffic between a trainer's program and its servers.

    `program` is what DistributeTranspiler or `fleet.distributed_optimizer` has cut. It says the mode, the number of
    trainers, for geo the steps between two exchanges, and how gradients travel; what is given here as well (`mode`,
    `trainers` and `push_nums` in `kwargs`, fields of TrainerRuntimeConfig in `envs`) must be the same.
    """

    def __init__(
        self,
        program: Program,
        mode: Mode | int | None = None,
        kwargs: Mapping[str, Any] | None = None,
        envs: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(program, Program):
            raise UsageTypeError(f"Communicator: program must be a Program, got {type(program).__name__}")
        note = program.notes.get(SERVERS_NOTE)
        self._plan = None if note is None else Plan.from_note(note)
        self._scope = global_scope()
        self._is_running = False
        if mode is not None:
            self._check("mode", _mode(mode))
        for name, value in (kwargs or {}).items():
            if name != "push_vars":  # the program has them: every parameter
                self._check(name, value)
        noted = program.notes.get(TRAFFIC_NOTE, {})
        config = TrainerRuntimeConfig(**{name: noted[name] for name in TRAFFIC if name in noted})
        traffic = config.get_communicator_flags()
        config.runtime_configs.update(envs or {})
        for name, value in config.get_communicator_flags().items():
            if value != traffic[name]:
                raise UsageError(
                    f"Communicator: {name} is {value} in envs, but {traffic[name]} in the program; say it before "
                    "minimize(loss): strategy.set_trainer_runtime_config({...})"
                )

    def start(self) -> None:
        """From now on the program's gradients are expected to travel; NotReadyError for a program without servers."""
        if self._plan is None:
            raise NotReadyError(
                "Communicator.start(): this program has no servers; give it transpiler.get_trainer_program(), or "
                "fleet.main_program after fleet.distributed_optimizer(optimizer).minimize(loss)"
            )
        self._is_running = True

    def stop(self) -> None:
        """Return when all that was sent has been applied; a second call does nothing."""
        was_running, self._is_running = self._is_running, False
        trainer = Trainer.at(self._scope)
        if was_running and trainer is not None:
            trainer.flush()

    def is_running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._is_running

    def _check(self, name: str, value: Any) -> None:
        plan = self._plan
        if plan is None:
            return
        known = {"mode": Mode(plan.job.mode), "trainers": plan.job.num_workers, "push_nums": plan.k_steps}
        if name not in known:
            raise UsageError(f"Communicator: kwargs has no {name!r}; it may have push_vars, trainers and push_nums")
        if value != known[name]:
            raise UsageError(f"Communicator: {name} is {value!r}, but the program was cut for {known[name]!r}")


def _mode(given: Any) -> Mode:
    if isinstance(given, Mode):
        return given
    if isinstance(given, int) and 0 <= given < len(_NUMBERED):
        return _NUMBERED[given]
    raise UsageError(f"Communicator: mode must be one of DistributedMode, or 0 to 3, got {given!r}")
