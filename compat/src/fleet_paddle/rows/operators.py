"""Rows of functions that are one operator each: its definition has 2.0's spelling and what it is on tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fleet_paddle.programs.variables import sized
from fleet_paddle.rows.function import Function
from fleet_programs.definition.registry import Calls, Definition
from fleet_programs.expressions.signs import combine
from fleet_programs.expressions.spelling import Spelling
from fleet_programs.layers.arithmetic import cast
from fleet_programs.layers.building.from_rows import Row, add, row_of
from fleet_programs.operators import definitions
from fleet_programs.program.variable import Variable


def functions() -> list[Function]:
    """One for each line that a definition has for version 2.0."""
    return [
        _function(definition, calls, Spelling.parse(calls.v2))
        for definition in definitions()
        for calls in definition.calls
        if calls.v2
    ]


def on_variables(name: str) -> Callable[..., Any]:
    """What one of them is on variables; it takes all arguments in their order, `name` too."""
    found = next(one.of_variables for one in functions() if one.spelling.name == name and not one.spelling.home)
    assert found is not None
    return found


def _function(definition: Definition, calls: Calls, spelling: Spelling) -> Function:
    assert calls.torch is not None, f"{spelling.name} has nothing that computes it on tensors"
    casts = "dtype" in spelling.names and "dtype" not in definition.attrs
    setting = tuple(one for one in spelling.parameters if not casts or one.name != "dtype")
    row = row_of(definition, calls, replace(spelling, parameters=setting))
    of_variables = _signed(row) if calls.is_sign else _added(row, spelling)
    if not spelling.home and spelling.name in sized.SECOND:
        of_variables = sized.taking(of_variables, sized.SECOND[spelling.name], spelling.names)
    is_plain = len(row.returns) == 1 and not any(mark == "*" for _, mark, _ in row.slots)
    gives = "X" if is_plain else "Any"
    takes_list = row.slots[0][1] == "*" if row.slots else False
    first = (spelling, calls.doc, calls.torch, of_variables, calls.layer, len(row.operands))
    return Function(*first, takes_list=takes_list, gives=gives)


def _added(row: Row, spelling: Spelling) -> Callable[..., Any]:
    """Adds the operator; a `dtype` that is no attribute casts the first variable."""
    names = spelling.names

    def of_variables(*given: Any) -> Any:
        by_name = dict(zip(names, given, strict=True))
        operands = [by_name[one] for one in row.operands]
        if by_name.get("dtype") is not None and "dtype" not in row.settings:
            operands[0] = cast(operands[0], by_name["dtype"])
        settings = [by_name[one] for one in row.settings]
        return add(row, operands, settings, by_name.get("name"), None, by_name.get("out"))

    return of_variables


def _signed(row: Row) -> Callable[..., Any]:
    """What a sign between variables means: one of the operands may be a number, or of another type."""

    def of_variables(x: Any, y: Any, *others: Any) -> Any:
        axis, name = others if row.settings else (-1, *others)
        if axis != -1:
            return add(row, (x, y), (axis,), name, None, None)
        return (
            combine(x, y, row.definition.type) if isinstance(x, Variable) else combine(y, x, row.definition.type, True)
        )

    return of_variables
