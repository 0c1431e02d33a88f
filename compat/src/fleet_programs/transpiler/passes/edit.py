"""What passes share: taking operators out, with everything that only they needed."""

from __future__ import annotations

from collections.abc import Iterable

from fleet_programs.definition.operator import OPTIMIZE, Operator
from fleet_programs.definition.registry import definition
from fleet_programs.program.block import Block


def remove(block: Block, ops: Iterable[Operator], keep: Iterable[str] = ()) -> None:
    """Take operators out, then those of the optimizer that nobody needs any more, then the variables of both.

    Variables of `keep` stay: a later pass will read them.
    """
    gone = {id(op) for op in ops}
    touched = _names(op for op in block.ops if id(op) in gone)
    block.ops = [op for op in block.ops if id(op) not in gone]
    while True:
        read = {name for op in block.ops for name in op.input_names}
        dead = [op for op in block.ops if op.role == OPTIMIZE and _is_dead(op, read, block)]
        if not dead:
            break
        touched |= _names(dead)
        block.ops = [op for op in block.ops if op not in dead]
    used = _names(block.ops) | set(keep)
    used |= {name for var in block.vars.values() if var.name in used for name in block.levels_of(var)}
    block.vars = {name: var for name, var in block.vars.items() if name in used or name not in touched}
    block.program.changed()


def _is_dead(op: Operator, read: set[str], block: Block) -> bool:
    kept = (name in read or block.var(name).persistable for name in op.output_names)
    return not definition(op.type).has_effect and not any(kept)


def _names(ops: Iterable[Operator]) -> set[str]:
    return {name for op in ops for name in (*op.input_names, *op.output_names)}
