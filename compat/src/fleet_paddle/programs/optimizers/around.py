"""Optimizers around another one that do something every few steps: `LookaheadOptimizer`, `GradientMergeOptimizer`.

Both change a finished program, in which a `cond` runs what is not done in every step. Neither is given to a
distributed optimizer: that has to see the updates of every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fleet.errors import UsageError
from fleet_paddle.programs.optimizers.recomputing import checked
from fleet_programs.definition.operator import OPTIMIZE
from fleet_programs.parameters.settings import number
from fleet_programs.program.block import Block
from fleet_programs.program.program import Program, default_startup_program
from fleet_programs.program.variable import Parameter, Variable
from fleet_programs.transpiler.passes.gradient_merge import gradient_merge, gradient_merge_startup
from fleet_programs.transpiler.passes.now_and_then import compared, constant, counted, divides, first_count, run_if

SLOW, STEP = "@SLOW", "lookahead_step"


class LookaheadOptimizer:
    """Every `k` steps, slow weights go the part `alpha` of the way to the weights, and these become the slow ones.

    Slow weights begin as the weights after the first step, as in PaddlePaddle 2.0.
    """

    def __init__(self, inner_optimizer: Any, alpha: float = 0.5, k: int = 5) -> None:
        self.inner_optimizer = checked("LookaheadOptimizer", inner_optimizer)
        self.alpha = number("LookaheadOptimizer", "alpha", alpha, least=0)
        if self.alpha > 1:
            raise UsageError(f"LookaheadOptimizer: alpha must be at most 1, got {alpha}")
        self.k = steps_of("LookaheadOptimizer", "k", k)
        self.type = "lookahead"

    def minimize(self, loss: Variable, startup_program: Program | None = None) -> tuple[list[Any], list[Any]]:
        """Add the other optimizer's step, and after it what the slow weights need."""
        checked("LookaheadOptimizer", self.inner_optimizer, loss)
        made: tuple[list[Any], list[Any]] = self.inner_optimizer.minimize(loss, startup_program)
        program, startup = loss.block.program, startup_program or default_startup_program()
        block = program.global_block()
        parameters = block.all_parameters()
        counted(block, STEP)
        first_count(startup, STEP)
        first = compared(block, "equal", STEP, constant(block, "lookahead_one", 1), "lookahead_first")
        due = divides(block, STEP, self.k, "lookahead")
        for one in parameters:
            slow = one.name + SLOW
            block.create_var(slow, one.shape, one.dtype, persistable=True, stop_gradient=True)
            beginning = startup.global_block()
            beginning.create_var(slow, one.shape, one.dtype, persistable=True)
            beginning.append_op("assign", {"X": one.name}, {"Out": slow})
        keeping, blending = program.create_block(0), program.create_block(0)
        for one in parameters:
            keeping.append_op("assign", {"X": one.name}, {"Out": one.name + SLOW}, {}, role=OPTIMIZE)
            self._blend(blending, one)
        run_if(block, first, keeping)
        run_if(block, due, blending)
        program.changed()
        return made

    def _blend(self, body: Block, one: Parameter) -> None:
        parts = {one.name: f"{one.name}@LOOKAHEAD@FAST", one.name + SLOW: f"{one.name}@LOOKAHEAD@SLOW"}
        for (name, part), factor in zip(parts.items(), (self.alpha, 1 - self.alpha), strict=True):
            body.create_var(part, one.shape, one.dtype, stop_gradient=True)
            body.append_op("scale", {"X": name}, {"Out": part}, {"scale": factor}, role=OPTIMIZE)
        body.append_op("sum", {"X": list(parts.values())}, {"Out": one.name + SLOW}, {}, role=OPTIMIZE)
        body.append_op("assign", {"X": one.name + SLOW}, {"Out": one.name}, {}, role=OPTIMIZE)


class GradientMergeOptimizer:
    """Gradients are added up over `k_steps` runs, or averaged with `avg`, and the last run makes the update."""

    def __init__(self, inner_optimizer: Any, k_steps: int = 1, avg: bool = True) -> None:
        self.inner_optimizer = checked("GradientMergeOptimizer", inner_optimizer)
        self.k_steps, self.avg = steps_of("GradientMergeOptimizer", "k_steps", k_steps), bool(avg)
        self.type = "gradient_merge"

    def _set_ksteps_of(self, k_steps: int) -> None:
        """Another number of runs, before `minimize`."""
        self.k_steps = steps_of("GradientMergeOptimizer", "k_steps", k_steps)

    def _set_avg(self, avg: bool) -> None:
        """Whether gradients are averaged or added."""
        self.avg = bool(avg)

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Parameter | str] | None = None,
        no_grad_set: Iterable[Variable | str] | None = None,
    ) -> tuple[list[Any], list[Any]]:
        """Add the other optimizer's step, and let its updates run in every last run only."""
        checked("GradientMergeOptimizer", self.inner_optimizer, loss)
        made: tuple[list[Any], list[Any]] = self.inner_optimizer.minimize(
            loss, startup_program, parameter_list, no_grad_set
        )
        if self.k_steps > 1:
            program, startup = loss.block.program, startup_program or default_startup_program()
            program.become(gradient_merge(program, self.k_steps, self.avg))
            startup.become(gradient_merge_startup(startup, program))
        return made


def steps_of(what: str, name: str, value: Any) -> int:
    """A number of steps, checked."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{what}: {name} must be a number of steps, 1 or more, got {value!r}")
    return value
