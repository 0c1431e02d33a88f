"""Whether an operator fits its definition: checked when it is added to a block, or read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fleet.errors import FleetError, UsageError
from fleet_programs.definition.attr_types import why_not
from fleet_programs.definition.infer import Infer, site_of
from fleet_programs.definition.kinds import ARRAY, ROWS
from fleet_programs.definition.operator import Operator
from fleet_programs.operators import definition

if TYPE_CHECKING:
    from fleet_programs.program.block import Block


def outside(name: str, index: int) -> str:
    """What to say of a variable that is used outside of its block."""
    return (
        f"variable {name!r} is of block {index} and has no value outside of it; return it from the function of the "
        "branch or loop, or assign it to a variable that was made before"
    )


def complete(op: Operator, block: Block) -> None:
    """Check an operator against its definition, order its slots, and find the shapes of its outputs."""
    fit(op)
    for name in op.input_names:
        if not block.has_var(name):
            inner = block.program.owner_of(name)
            reason = outside(name, inner) if inner else f"the program has no variable {name!r}"
            raise UsageError(f"{site_of(op)}{op.type}: {reason}")
    for name in op.output_names:
        if not block.has_var(name):
            block.create_var(name)
    find_shapes(Infer(op, block))
    check_in_place(op)


def fit(op: Operator) -> None:
    """Put an operator's slots in the order of its definition; UsageError if they or its attributes do not fit that."""
    known_op = definition(op.type)
    op.inputs = _ordered(op, op.inputs, known_op.input_slots, "input")
    op.outputs = _ordered(op, op.outputs, known_op.output_slots, "output")
    for name, value in op.attrs.items():
        if name not in known_op.attrs:
            has = ", ".join(known_op.attrs) or "none"
            raise UsageError(f"{site_of(op)}operator {op.type} has no attribute {name!r}; it has {has}")
        reason = why_not(value, known_op.attrs[name])
        if reason:
            raise UsageError(f"{site_of(op)}{op.type}: attribute {name} {reason}")


def find_shapes(infer: Infer) -> None:
    """Run the `infer` of an operator's definition; UsageError whatever it stumbles over."""
    known_op = definition(infer.op.type)
    if not known_op.takes_rows:
        _refuse_rows(infer)
    if not known_op.takes_arrays:
        _refuse_arrays(infer)
    if known_op.infer is None:
        return
    try:
        known_op.infer(infer)
    except FleetError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        shapes = ", ".join(f"{name!r} {list(infer.block.var(name).shape)}" for name in infer.op.input_names)
        raise infer.fail(f"its inputs ({shapes or 'none'}) and attributes do not go together: {error}") from error


def _refuse_rows(infer: Infer) -> None:
    for slot, names in infer.op.inputs.items():
        for name in names:
            if infer.block.var(name).kind == ROWS:
                raise infer.fail(
                    f"{slot} {name!r} has some rows only, as the gradient of a sparse lookup does; scale, sum, clips "
                    "and optimizers take that: use is_sparse=False for others"
                )


def _refuse_arrays(infer: Infer) -> None:
    for slot, names in infer.op.inputs.items():
        for name in names:
            if infer.block.var(name).kind == ARRAY:
                raise infer.fail(
                    f"{slot} {name!r} is an array of tensors; take one with array_read(), or join them with "
                    "tensor_array_to_tensor()"
                )


def check_in_place(op: Operator) -> None:
    """UsageError if an operator would write what it reads and has no kernel for that."""
    known_op = definition(op.type)
    if known_op.in_place or known_op.rebinds:
        return
    for slot, names in op.outputs.items():
        own = op.input(slot.removesuffix("Out"))
        for name in op.in_place.intersection(names) - set(own if slot.endswith("Out") else ()):
            raise UsageError(f"{site_of(op)}{op.type} cannot write {name!r}, which it reads; give it another output")


def _ordered(op: Operator, given: Mapping[str, list[str]], marks: Mapping[str, str], what: str) -> dict[str, list[str]]:
    for slot, mark in marks.items():
        count = len(given.get(slot, ()))
        if (count > 1 and mark != "*") or (count == 0 and not mark):
            raise UsageError(f"{site_of(op)}operator {op.type}: {what} {slot} takes one variable, got {count}")
    for slot in given:
        if slot not in marks:
            has = ", ".join(marks) or "none"
            raise UsageError(f"{site_of(op)}operator {op.type} has no {what} {slot!r}; it has {has}")
    return {slot: list(given[slot]) for slot in marks if given.get(slot)}
