"""Functions of 2.0 made from the definitions of operators: one for each line that a definition has for version 2.0.

Given tensors such a function calls torch; given variables it adds the operator to their program. It is compiled from
its signature with the first case inside, since that is called most. They are in `functions.table` and, where 2.0 has
them in `nn.functional`, in `nn.functional.table`; `python -m fleet_paddle.imperative.functions.from_rows F` prints the
stub of the second, without `F` that of the first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from fleet.static.layers.arithmetic import cast
from fleet.static.layers.from_rows import Row, add, row_of
from fleet.static.ops import definitions
from fleet.static.registry import Calls, Definition
from fleet.static.signs import combine
from fleet.static.spelling import Spelling
from fleet.static.variable import Variable
from fleet_paddle.imperative.tensor import Parameter, Tensor, own

TABLES = {"": "fleet_paddle.imperative.functions.table", "F": "fleet_paddle.imperative.nn.functional.table"}
"""Where 2.0 has a function -> the module that has it here."""

_TENSORS = frozenset({Tensor, Parameter, torch.Tensor})


def spellings() -> list[tuple[Definition, Calls, Spelling]]:
    """Every way of 2.0 to call an operator, sorted by name."""
    found = [
        (definition, calls, Spelling.parse(calls.v2))
        for definition in definitions()
        for calls in definition.calls
        if calls.v2
    ]
    return sorted(found, key=lambda one: one[2].name)


def functions(home: str) -> dict[str, Callable[..., Any]]:
    """Every function of one of the tables, by name."""
    return {one[2].name: _function(*one) for one in spellings() if one[2].home == home}


def takes_both(function: Callable[..., Any]) -> bool:
    """Whether a function was made from a row, and so takes tensors and variables as it is."""
    return function.__module__ in TABLES.values()


def _function(definition: Definition, calls: Calls, spelling: Spelling) -> Callable[..., Any]:
    assert calls.torch is not None, f"{spelling.name} has nothing that computes it on tensors"
    casts = "dtype" in spelling.names and "dtype" not in definition.attrs
    setting = tuple(one for one in spelling.parameters if not casts or one.name != "dtype")
    row = row_of(definition, calls, replace(spelling, parameters=setting))
    given = ", ".join(name for name in spelling.names if name != "name")
    first, special = row.operands[0], {one: one if one in spelling.names else "None" for one in ("name", "out")}
    body = (
        f"if {first}.__class__ in TENSORS:\n"
        f"    return own(compute({given}))\n"
        f"return otherwise(row, compute, ({given},), ({', '.join(row.operands)},), "
        f"({''.join(f'{one}, ' for one in row.settings)}), {special['name']}, {special['out']}"
        f"{', dtype' if casts else ''})"
    )
    otherwise = _by_sign if calls.is_sign else _otherwise
    scope = {"TENSORS": _TENSORS, "own": own, "compute": calls.torch, "otherwise": otherwise, "row": row}
    return spelling.function(body, scope, calls.doc, TABLES[spelling.home])


def _otherwise(
    row: Row,
    compute: Callable[..., Any],
    given: Sequence[Any],
    operands: Sequence[Any],
    settings: Sequence[Any],
    name: str | None,
    out: Any,
    dtype: Any = None,
) -> Any:
    """A call whose first argument is no tensor: an operator for variables, and whatever torch makes of the rest."""
    if not any(isinstance(one, Variable) for one in operands):
        return own(compute(*given))
    if dtype is not None:
        operands = [cast(operands[0], dtype), *operands[1:]]
    return add(row, operands, settings, name, None, out)


def _by_sign(
    row: Row,
    compute: Callable[..., Any],
    given: Sequence[Any],
    operands: Sequence[Any],
    settings: Sequence[Any],
    name: str | None,
    out: Any,
) -> Any:
    """The same for what a sign between variables means: one of the operands may be a number, or of another type."""
    x, y = operands
    if settings and settings[0] != -1:
        return _otherwise(row, compute, given, operands, settings, name, out)
    if isinstance(x, Variable):
        return combine(x, y, row.type)
    return combine(y, x, row.type, True) if isinstance(y, Variable) else own(compute(*given))


def stub(home: str) -> str:
    """The text of a table's `table.pyi`."""
    found = [one for one in spellings() if one[2].home == home]
    lines = [
        '"""Functions made from the definitions of operators; `make docs` writes this stub."""',
        "",
        "from typing import Any, TypeVar",
        "",
        f"__all__ = [{', '.join(repr(one.name) for _, _, one in found)}]",
        "",
        'X = TypeVar("X")',
        "",
        *(spelling.stub("X", len(definition.input_slots), calls.doc) for definition, calls, spelling in found),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(stub(*sys.argv[1:] or [""]), end="")
