"""Layers of 2.0 that only call a function, made from the definitions of operators.

`python -m fleet_paddle.imperative.nn.from_rows` prints the stub of `fleet_paddle.imperative.nn.table`, where they are.
"""

from __future__ import annotations

from importlib import import_module

from fleet_paddle.imperative.functions.from_rows import TABLES, spellings
from fleet_paddle.imperative.nn.of_function import FunctionLayer

TABLE = "fleet_paddle.imperative.nn.table"


def classes() -> dict[str, type[FunctionLayer]]:
    """Every layer class of the table, by name."""
    found = {}
    for definition, calls, spelling in spellings():
        if not calls.layer:
            continue
        fields = {
            "function": staticmethod(getattr(import_module(TABLES[spelling.home]), spelling.name)),
            "inputs": len(definition.input_slots),
            "__doc__": calls.doc,
            "__module__": TABLE,
        }
        found[calls.layer] = type(calls.layer, (FunctionLayer,), fields)
    return found


def stub() -> str:
    """The text of `table.pyi`."""
    found = sorted((one for one in spellings() if one[1].layer), key=lambda one: one[1].layer)
    lines = [
        '"""Layers made from the definitions of operators; `make docs` writes this stub."""',
        "",
        "from typing import Any",
        "",
        "from fleet_paddle.imperative.nn.of_function import FunctionLayer",
        "",
        f"__all__ = [{', '.join(repr(calls.layer) for _, calls, _ in found)}]",
        "",
    ]
    for definition, calls, spelling in found:
        settings = [
            f"{one.name}: {one.kind}" + ("" if one.default is None else f" = {one.default}")
            for one in spelling.parameters[len(definition.input_slots) :]
        ]
        lines += [
            f"class {calls.layer}(FunctionLayer):",
            f'    """{calls.doc}"""',
            f"    def __init__({', '.join(['self', *settings])}) -> None: ...",
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(stub(), end="")
