"""`fleet.distributed_optimizer` of programs: `minimize` makes the program of a loss this worker's part of the job.

Everything happens on copies first, so that a program which cannot be distributed stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fleet.errors import NotSupportedError, UsageTypeError
from fleet_programs.backward.backward import ParamsGrads
from fleet_programs.definition.operator import Operator
from fleet_programs.optimizer import Optimizer
from fleet_programs.program.program import Program, default_startup_program, program_guard
from fleet_programs.program.variable import Parameter, Variable
from fleet_programs.transpiler.programs import refuse_cut

if TYPE_CHECKING:
    from fleet_programs.jobs.job import ProgramJob
    from fleet_programs.jobs.strategy_options import Strategy

Made = tuple[list[Operator], ParamsGrads]


class ProgramOptimizer:
    """Stands for an optimizer of programs: what adds updates also distributes the program, the rest is as it was."""

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
    ) -> Made:
        """Add backward and optimizer to the loss's program, then make it, and the startup program, this worker's.

        Returns what is left of them in this worker's program: updates that servers make are not.
        """
        if scopes is not None:
            raise NotSupportedError("minimize: scopes must be left out; exe.run takes the scope")
        for name, value in (("loss", loss), ("startup_program", startup_program)):
            if isinstance(value, list | tuple):
                raise UsageTypeError(f"minimize: {name} must be one, got a list of {len(value)}")
        if not isinstance(loss, Variable):
            raise UsageTypeError(f"loss must be a Variable, got {type(loss).__name__}")
        chosen = _names(self.inner.parameter_list if parameter_list is None else parameter_list)

        def add(main: Program, startup: Program) -> Made:
            return self.inner.minimize(main.global_block().var(loss.name), startup, chosen, _names(no_grad_set))

        return self._distributed(loss.block.program, startup_program, add)

    def apply_gradients(self, params_grads: ParamsGrads) -> list[Operator]:
        """Add the updates by gradients that `backward` has given, and distribute the program of the parameters."""
        return self._apply(list(params_grads), None)

    def apply_optimize(
        self,
        loss: Variable,  # noqa: ARG002 - the parameters' program is the loss's
        startup_program: Program | None,
        params_grads: ParamsGrads,
    ) -> list[Operator]:
        """`apply_gradients`, with first values in a startup program of one's own."""
        return self._apply(list(params_grads), startup_program)

    def _apply(self, pairs: ParamsGrads, startup: Program | None) -> list[Operator]:
        if not pairs or not all(isinstance(parameter, Parameter) for parameter, _ in pairs):
            return self.inner.apply_gradients(pairs)  # which says what is wrong

        def add(main: Program, startup: Program) -> Made:
            with program_guard(main, startup):
                return self.inner.apply_gradients(_found(pairs, main)), []

        return self._distributed(pairs[0][0].block.program, startup, add)[0]

    def _distributed(self, main: Program, startup: Program | None, add: Callable[[Program, Program], Made]) -> Made:
        startup = default_startup_program() if startup is None else startup
        refuse_cut(main)
        trained = main.clone(), startup.clone()
        ops, pairs = add(*trained)
        written = [op.outputs for op in ops]
        self._job.rewrite(main, startup, trained, self._strategy)
        return [op for op in main.global_block().ops if op.outputs in written], _found(pairs, main)

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # a copy that has nothing yet
            raise AttributeError(name)
        return getattr(self.inner, name)


def _names(given: Iterable[Variable | str] | None) -> list[str] | None:
    return None if given is None else [one if isinstance(one, str) else one.name for one in given]


def _found(pairs: ParamsGrads, program: Program) -> ParamsGrads:
    """The same pairs in another program, as far as it has them."""
    known = program.global_block().vars
    found = [(known.get(parameter.name), known.get(gradient.name)) for parameter, gradient in pairs]
    return [(one, other) for one, other in found if isinstance(one, Parameter) and other is not None]
