"""A block that an operator runs, compiled once: a function of what it takes from around it."""

from __future__ import annotations

from collections.abc import Sequence

from fleet_programs.executor.emit import Emitter
from fleet_programs.executor.needing import needed
from fleet_programs.kernel.lowering import Body, Lowering


def body_of(lowering: Lowering, index: int, given: Sequence[str], wanted: Sequence[str]) -> Body:
    """The block of a number as a function of the variables `given`, that gives those `wanted`."""
    block = lowering.program.blocks[index]
    inner = Lowering(block, lowering.device, lowering.scope, is_handed_on=lowering.is_handed_on, compile_body=body_of)
    step = Emitter(inner, given, wanted, {}).body(needed(block, wanted))
    lowering.bodies += [step, *inner.bodies]
    return step.function
