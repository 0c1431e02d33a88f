"""`drop_updates`: a trainer does not update what servers update."""

from __future__ import annotations

from fleet_programs.program.program import Program
from fleet_programs.transpiler.passes.edit import remove
from fleet_programs.transpiler.planning.updates import is_update
from fleet_programs.transpiler.planning.verify import verified


@verified
def drop_updates(program: Program) -> Program:
    """The program without update operators, their accumulators, and the factors on learning rates.

    Clips stay: servers get clipped gradients. Schedules stay: servers get the rate of each step.
    """
    other = program.clone()
    block = other.global_block()
    remove(block, [op for op in block.ops if is_update(op)])
    return other
