"""Functions of 2.0 made from the definitions of operators: one for each line that a definition has for version 2.0.

Given tensors such a function calls torch; given variables it adds the operator to their program. It is compiled from
its signature with the first case inside, since that is called most. They are in `table`, beside this file;
`python -m fleet_paddle.imperative.functions.from_rows` prints its stub.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from fleet.static.layers import cast
from fleet.static.layers.from_rows import Row, add, row_of
from fleet.static.ops import definitions
from fleet.static.registry import Calls, Definition
from fleet.static.spelling import Spelling
from fleet.static.variable import Variable
from fleet_paddle.imperative.tensor import Parameter, Tensor, own

TABLE = "fleet_paddle.imperative.functions.table"

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


def names(home: str) -> list[str]:
    """The functions of the table that 2.0 has in `home`: "" for the root, "F" for `nn.functional`."""
    return [spelling.name for _, _, spelling in spellings() if spelling.home == home]


def functions() -> dict[str, Callable[..., Any]]:
    """Every function of the table, by name."""
    return {spelling.name: _function(definition, calls, spelling) for definition, calls, spelling in spellings()}


def _function(definition: Definition, calls: Calls, spelling: Spelling) -> Callable[..., Any]:
    assert calls.torch is not None, f"{spelling.name} has nothing that computes it on tensors"
    casts = "dtype" in spelling.names and "dtype" not in definition.attrs
    setting = tuple(one for one in spelling.parameters if not casts or one.name != "dtype")
    row = row_of(definition, calls, replace(spelling, parameters=setting))
    given = ", ".join(name for name in spelling.names if name != "name")
    first, name = row.operands[0], "name" if "name" in spelling.names else "None"
    body = (
        f"if {first}.__class__ in TENSORS:\n"
        f"    return own(compute({given}))\n"
        f"return otherwise(row, compute, ({given},), ({', '.join(row.operands)},), "
        f"({''.join(f'{one}, ' for one in row.settings)}), {name}, {'dtype' if casts else 'None'})"
    )
    scope = {"TENSORS": _TENSORS, "own": own, "compute": calls.torch, "otherwise": _otherwise, "row": row}
    return spelling.function(body, scope, calls.doc, TABLE)


def _otherwise(
    row: Row,
    compute: Callable[..., Any],
    given: Sequence[Any],
    operands: Sequence[Any],
    settings: Sequence[Any],
    name: str | None,
    dtype: Any,
) -> Any:
    """A call whose first argument is no tensor: an operator for variables, and whatever torch makes of the rest."""
    if not any(isinstance(one, Variable) for one in operands):
        return own(compute(*given))
    if dtype is not None:
        operands = [cast(operands[0], dtype), *operands[1:]]
    return add(row, operands, settings, name, None, None)


def stub() -> str:
    """The text of `table.pyi`."""
    found = spellings()
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
    print(stub(), end="")
