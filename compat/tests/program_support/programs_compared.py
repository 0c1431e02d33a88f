"""Whether two programs say the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleet_programs.definition.literals import plain, quoted, write_value
from fleet_programs.definition.operator import Operator
from fleet_programs.program.block import Block
from fleet_programs.program.program import Program


def same(program: Program, other: Program) -> bool:
    """Whether two programs are equal in everything that a form keeps.

    Not compared: `serial`, `version`, where operators were made, and where building stands (the role and block that
    come next). An attribute that is left out equals one that has the default of its definition; floats are equal if
    they are written alike, so nan is equal to itself and 0.0 is not -0.0.
    """
    return difference(program, other) is None


def difference(program: Program, other: Program) -> str | None:
    """The first difference in one line, or None."""
    if program.random_seed != other.random_seed:
        return f"random_seed: {program.random_seed} and {other.random_seed}"
    if quoted(program.notes) != quoted(other.notes):
        return f"notes: {quoted(program.notes)} and {quoted(other.notes)}"
    if len(program.blocks) != len(other.blocks):
        return f"blocks: {len(program.blocks)} and {len(other.blocks)}"
    for ours, theirs in zip(program.blocks, other.blocks, strict=True):
        found = _block_difference(ours, theirs)
        if found is not None:
            return f"block {ours.index}: {found}"
    return None


def _block_difference(ours: Block, theirs: Block) -> str | None:
    if (ours.index, ours.parent) != (theirs.index, theirs.parent):
        return f"parent: {ours.parent} and {theirs.parent}"
    if list(ours.vars) != list(theirs.vars):
        return f"variables: {list(ours.vars)} and {list(theirs.vars)}"
    for name, var in ours.vars.items():
        twin = theirs.vars[name]
        if type(var) is not type(twin) or _facts(var) != _facts(twin):
            return f"variable {name!r}: {var} and {twin}"
    if len(ours.ops) != len(theirs.ops):
        return f"operators: {len(ours.ops)} and {len(theirs.ops)}"
    for index, (op, twin_op) in enumerate(zip(ours.ops, theirs.ops, strict=True)):
        if _op_facts(op) != _op_facts(twin_op):
            return f"operator {index}: {op} and {twin_op}"
    return None


def _facts(var: Any) -> dict[str, Any]:
    found = {name: value for name, value in vars(var).items() if name != "block"}
    return {name: repr(value.item() if isinstance(value, np.generic) else value) for name, value in found.items()}


def _op_facts(op: Operator) -> dict[str, Any]:
    facts = {name: value for name, value in vars(op).items() if name not in ("attrs", "callsite")}
    return {**facts, "attrs": {name: write_value(plain(value, name)) for name, value in op.effective_attrs().items()}}
