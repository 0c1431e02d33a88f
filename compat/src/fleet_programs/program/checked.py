"""Parts of a program that were read from a text or JSON form, checked and put together.

Shapes stand in the form and are compared with what the operators make, as building compares them. The rest that is
checked is what makes a program a program: known operators with their slots and attributes, variables that exist, blocks
inside earlier blocks. Errors say what is wrong; where it stands is added by whoever reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fleet.errors import UsageError
from fleet_programs.definition.dtypes import DTYPES
from fleet_programs.definition.kinds import KINDS
from fleet_programs.definition.operator import Operator
from fleet_programs.program.block import Block
from fleet_programs.program.declared import check_declared
from fleet_programs.program.fitting import fit
from fleet_programs.program.variable import PARAMETER_SETTINGS, SETTINGS, Parameter, Penalty, Variable

if TYPE_CHECKING:
    from fleet_programs.program.program import Program

MAX_NESTING = 32
"""Blocks within blocks, and values of a note within each other."""


def add_note(program: Program, name: str, value: Any) -> None:
    """Add a note, which is any JSON that is not nested too deeply."""
    if name in program.notes:
        raise UsageError(f"note {name!r} stands twice")
    layer, depth = [value], 0
    while layer:
        layer = [inner for one in layer for inner in _inside(one)]
        depth += 1
    if depth > MAX_NESTING:
        raise UsageError(f"note {name!r} has more than {MAX_NESTING} values within each other")
    program.notes[name] = value


def _inside(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else ()


def add_block(program: Program, parent: int) -> Block:
    """The next block, inside an earlier one."""
    if not program.blocks:
        if parent != -1:
            raise UsageError(f"block 0 is inside no other, got parent {parent}")
    elif not -1 <= parent < len(program.blocks):
        raise UsageError(
            f"block {len(program.blocks)} must be inside one before it, or -1 for none, got parent {parent}"
        )
    block = Block(program, len(program.blocks), parent)
    depth, outer = 0, parent
    while outer >= 0:
        depth, outer = depth + 1, program.blocks[outer].parent
    if depth > MAX_NESTING:
        raise UsageError(f"more than {MAX_NESTING} blocks within each other")
    program.blocks.append(block)
    return block


def add_variable(
    block: Block, is_parameter: bool, name: str, dtype: str, shape: Sequence[int], settings: Mapping[str, Any]
) -> None:
    """A variable with all its settings, which `usual_settings` has completed."""
    if not name:
        raise UsageError("a variable has no name")
    if name in block.vars:
        raise UsageError(f"variable {name!r} stands twice in block {block.index}")
    if dtype not in DTYPES:
        raise UsageError(f"dtype of {name!r} must be one of {', '.join(DTYPES)}, got {dtype!r}")
    for size in shape:
        if type(size) is not int or size < -1:
            raise UsageError(f"sizes of {name!r} must be whole numbers >= -1, got {size!r}")
    known = (*SETTINGS, *PARAMETER_SETTINGS) if is_parameter else SETTINGS
    for key in settings:
        if key not in known:
            raise UsageError(f"variable {name!r} has no setting {key!r}; there are {', '.join(known)}")
    given = {key: _setting(name, key, value) for key, value in settings.items()}
    if is_parameter:
        var: Variable = Parameter(block, name, shape, dtype, **{key: given.pop(key) for key in PARAMETER_SETTINGS})
        for key, value in given.items():
            setattr(var, key, value)
    else:
        var = Variable(block, name, shape, dtype, **given)
    block.vars[name] = var


def _setting(name: str, key: str, value: Any) -> Any:
    if key == "kind":
        right, wanted = value in KINDS, f"one of {', '.join(KINDS)}"
    elif key == "lod":
        right, wanted = value is None or isinstance(value, str), "the name of a variable"
    elif key == "learning_rate":
        right, wanted = type(value) in (int, float), "a number"
    elif key == "regularizer":
        if value is None:
            return None
        right = (
            isinstance(value, list) and len(value) == 2 and value[0] in ("l1", "l2") and type(value[1]) in (int, float)
        )
        wanted = 'a pair such as ["l2", 0.01]'
        if right:
            return Penalty(*value)
    else:
        right, wanted = isinstance(value, bool), "true or false"
    if not right:
        raise UsageError(f"{key} of {name!r} must be {wanted}, got {value!r}")
    return value


def add_operator(block: Block, op: Operator) -> None:
    """An operator; its slots are put in the order of its definition, and its outputs must be what it makes."""
    fit(op)
    check_declared(op, block)
    block.ops.append(op)
