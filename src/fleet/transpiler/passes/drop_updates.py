"""`drop_updates`: a trainer does not update what servers update."""

from __future__ import annotations

from fleet.static.program import Program
from fleet.transpiler.passes.edit import remove
from fleet.transpiler.updates import is_update
from fleet.transpiler.verify import verified


@verified
def drop_updates(program: Program) -> Program:
    """The program without update operators, their accumulators, and the factors on learning rates.

    Clips stay: servers get clipped gradients. Schedules stay: servers get the rate of each step.
    """
    other = program.clone()
    block = other.global_block()
    remove(block, [op for op in block.ops if is_update(op)])
    return other
