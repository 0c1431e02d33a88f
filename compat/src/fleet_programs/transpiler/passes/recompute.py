"""`recompute`: values between checkpoints are computed again where backward needs them, instead of kept until then.

The forward operators of a stretch stand a second time before the first gradient that reads what they made; their
outputs are called `NAME.subprog_0`. What follows the last checkpoint is kept: backward begins there at once. So is what
chance made, what an operator changes besides its outputs, what blocks made, and what was made of a value that another
one has replaced: a second time, it would be something else. The program lets values go where they were used last, or
nothing would be saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

from fleet.errors import UsageError
from fleet_programs.definition.operator import BACKWARD, FORWARD, Operator
from fleet_programs.definition.registry import definition
from fleet_programs.program.block import Block
from fleet_programs.program.notes import MEMORY_NOTE
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable
from fleet_programs.transpiler.planning.verify import verified


@verified
def recompute(program: Program, checkpoints: Sequence[str]) -> Program:
    """The program with forward operators repeated in its backward; UsageError for a checkpoint that nothing makes."""
    other = program.clone()
    block = other.global_block()
    for number, stretch in reversed(list(enumerate(_stretches(block, checkpoints)))):
        _repeat(block, stretch, set(checkpoints), f".subprog_{number}")
    other.notes.setdefault(MEMORY_NOTE, {"skip_grads": True, "keep": []})
    other.changed()
    return other


def _stretches(block: Block, checkpoints: Sequence[str]) -> list[list[Operator]]:
    """The forward operators up to each checkpoint, from the one before."""
    forward = [op for op in block.ops if op.role == FORWARD]
    places = set()
    for name in checkpoints:
        block.var(name)
        made = [place for place, op in enumerate(forward) if name in op.output_names]
        if not made:
            raise UsageError(
                f"recompute: checkpoint {name!r} is what no layer makes; name a value between two layers, such as "
                "hidden.name"
            )
        places.add(made[-1] + 1)
    ends = sorted(places)
    return [forward[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _repeat(block: Block, stretch: Sequence[Operator], kept: set[str], suffix: str) -> None:
    writers = _writers(block)
    again = {name: op for op in stretch if _is_repeatable(op, block, kept, writers) for name in op.output_names}
    readers = [op for op in block.ops if op.role == BACKWARD and again.keys() & set(op.input_names)]
    if not readers:
        return
    wanted = {name for op in readers for name in op.input_names if name in again}
    chosen: list[Operator] = []
    for op in reversed(stretch):
        if wanted & set(op.output_names) and all(again.get(name) is op for name in op.output_names):
            chosen.append(op)
            wanted |= {name for name in op.input_names if name in again}
    names = {name: name + suffix for op in chosen for name in op.output_names}
    first = next(place for place, op in enumerate(block.ops) if op is readers[0])
    for op in readers:
        op.inputs = op.renamed(names, {}).inputs
    copies = [op.renamed(names, names) for op in reversed(chosen)]
    for twin in copies:
        twin.role = BACKWARD
    block.ops[first:first] = copies
    for name, new in names.items():
        block.vars[new] = made = copy(block.vars[name])
        made.name = new


def _is_repeatable(op: Operator, block: Block, kept: set[str], writers: Mapping[str, Sequence[Operator]]) -> bool:
    known = definition(op.type)
    if known.has_effect or known.is_random or known.blocks or known.is_metric or op.in_place:
        return False
    made = [block.var(name) for name in op.output_names]
    if any(var.persistable or var.name in kept or var.lod is not None or len(writers[var.name]) > 1 for var in made):
        return False
    return not any(_is_replaced(block.var(name), writers.get(name, ())) for name in op.input_names)


def _is_replaced(var: Variable, writers: Sequence[Operator]) -> bool:
    """Whether a value may be another one when backward comes; what is kept from step to step has one to begin with."""
    return len(writers) > (0 if var.persistable or var.is_data else 1)


def _writers(block: Block) -> dict[str, list[Operator]]:
    """The operators of forward and backward that write each variable."""
    found: dict[str, list[Operator]] = {}
    for op in block.ops:
        if op.role in (FORWARD, BACKWARD):
            for name in op.output_names:
                found.setdefault(name, []).append(op)
    return found
