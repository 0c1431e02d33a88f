"""`CompiledProgram` and `ParallelExecutor`: programs with options, and the trainers of nccl2 mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.feeds import joined
from fleet_programs.executor.options import BuildStrategy, ExecutionStrategy
from fleet_programs.executor.place import CPUPlace, CUDAPlace
from fleet_programs.executor.scope import Scope
from fleet_programs.program.notes import COLLECTIVE_NOTE, trainers_of
from fleet_programs.program.program import Program, default_main_program
from fleet_programs.program.variable import Variable


class CompiledProgram:
    """A program and how to compile it; the Executor takes it wherever it takes a program."""

    def __init__(self, program: Program, build_strategy: BuildStrategy | None = None) -> None:
        if not isinstance(program, Program):
            raise UsageTypeError(f"program must be a Program, got {type(program).__name__}")
        self.program = program
        self.build_strategy = BuildStrategy()
        self._use(build_strategy, None)

    def with_data_parallel(
        self,
        loss_name: str | None = None,
        build_strategy: BuildStrategy | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        share_vars_from: CompiledProgram | None = None,
        places: Any = None,
    ) -> CompiledProgram:
        """The same with options. A process has one device; `fleetrun` starts one process for each GPU.

        Several CPU places are one CPU, which computes a batch with all its cores: so does this process anyway.
        """
        if loss_name is not None:
            self.program.global_block().var(loss_name)
        num_places = len(places) if isinstance(places, Sequence) else 1
        if num_places > 1 and not all(isinstance(place, CPUPlace) for place in places):
            raise NotSupportedError(
                f"with_data_parallel: {num_places} places in one process are not built; start one process for each "
                f"with fleetrun --worker_num {num_places}"
            )
        if share_vars_from is not None and not isinstance(share_vars_from, CompiledProgram):
            raise UsageTypeError(f"share_vars_from must be a CompiledProgram, got {type(share_vars_from).__name__}")
        self._use(build_strategy, exec_strategy)  # programs of one scope share its variables anyway
        return self

    def _use(self, build: BuildStrategy | None, execution: ExecutionStrategy | None) -> None:
        if build is not None:
            build.check(max(build.num_trainers, trainers_of(self.program.notes)[0]))
            if build.num_trainers > 1:
                check_trainers(self.program, build.num_trainers, build.trainer_id)
            self.build_strategy = build
            self.program.changed()  # it is compiled in another way from now on
        if execution is not None:
            execution.check()

    @property
    def serial(self) -> int:
        """The program's: equal for no two programs of a process."""
        return self.program.serial

    @property
    def version(self) -> int:
        """The program's: it grows with every change."""
        return self.program.version


class ParallelExecutor:
    """An Executor for one program; with several trainers, one of those that nccl2 mode brought together."""

    def __init__(
        self,
        use_cuda: bool,
        loss_name: str | None = None,
        main_program: Program | None = None,
        share_vars_from: ParallelExecutor | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        build_strategy: BuildStrategy | None = None,
        num_trainers: int = 1,
        trainer_id: int = 0,
        scope: Scope | None = None,
    ) -> None:
        program = default_main_program() if main_program is None else main_program
        self._program = CompiledProgram(program, build_strategy).with_data_parallel(loss_name, None, exec_strategy)
        if share_vars_from is not None and not isinstance(share_vars_from, ParallelExecutor):
            raise UsageTypeError(f"share_vars_from must be a ParallelExecutor, got {type(share_vars_from).__name__}")
        if scope is None and share_vars_from is not None:
            scope = share_vars_from._scope
        self._scope: Scope | None = scope
        check_trainers(program, num_trainers, trainer_id)
        self._executor = Executor(CUDAPlace(0) if use_cuda else CPUPlace())

    @property
    def device_count(self) -> int:
        """Always 1: a process has one device."""
        return 1

    def run(
        self,
        fetch_list: Sequence[Variable | str],
        feed: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        feed_dict: Mapping[str, Any] | None = None,
        return_numpy: bool = True,
    ) -> list[Any]:
        """Run the program once."""
        given = feed if feed is not None else feed_dict
        if isinstance(given, Sequence):
            given = joined(given, self._program.program.global_block().vars)
        return self._executor.run(self._program, given, fetch_list, self._scope, return_numpy)

    def drop_local_exe_scopes(self) -> None:
        """Temporaries are gone when a run ends, so there is nothing to drop."""


def check_trainers(program: Program, num_trainers: int, trainer_id: int) -> None:
    """UsageError unless the program was transpiled for so many trainers, and for this one."""
    known, index = trainers_of(program.notes)
    if num_trainers != known:
        is_alone = COLLECTIVE_NOTE not in program.notes
        remedy = "transpile it with mode 'nccl2' first" if is_alone else "give the same number to both"
        raise UsageError(f"num_trainers is {num_trainers}, but the program is one of {known} trainers; {remedy}")
    if trainer_id != index and known > 1:
        raise UsageError(f"trainer_id is {trainer_id}, but the program was transpiled for trainer {index}")
