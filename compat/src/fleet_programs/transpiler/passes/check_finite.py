"""`check_finite`: in geo mode a trainer looks for NaN and Inf before it updates, elsewhere before it sends."""

from __future__ import annotations

from fleet.strategy.mode import Mode
from fleet_programs.definition.operator import REMOTE
from fleet_programs.program.program import Program
from fleet_programs.transpiler.planning.plan import Plan
from fleet_programs.transpiler.planning.updates import updates_of
from fleet_programs.transpiler.planning.verify import verified


@verified
def check_finite(program: Program, plan: Plan) -> Program:
    """The program with all gradients checked as soon as the last is there, before clips and updates.

    Those of rows are not named: `prefetch_grad` has handed them over by then.
    """
    other = program.clone()
    if plan.job.mode != Mode.GEO or not plan.dense:
        return other
    block = other.global_block()
    gradients = list(dict.fromkeys(update.raw for update in updates_of(other)))
    written = set(gradients)
    index = 1 + max(
        index for index, op in enumerate(block.ops) if op.type == "prefetch_grad" or written & set(op.output_names)
    )
    block.insert_op(index, "check_finite", {"X": gradients}, {}, {}, role=REMOTE)
    return other
