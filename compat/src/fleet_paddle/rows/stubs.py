"""The stubs of what is compiled from rows: `python -m fleet_paddle.rows.stubs functions` prints one; see `STUBS`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import fleet_paddle.imperative  # noqa: F401 - the package whose tensors rows need comes first
from fleet_paddle.programs.ops import OWN
from fleet_paddle.rows.listing import functions
from fleet_programs.layers.building.from_rows import stub as of_layers

_HEAD = '"""Made from rows; `make docs` writes this stub."""\n# ruff: noqa: %s  (a line for each)\n# fmt: off\n\n'


def of_functions(home: str) -> str:
    """The text of a table of functions: that of the root, or that of `nn.functional`, whose home is "F"."""
    found = [one for one in functions() if one.spelling.home == home]
    lines = ["from typing import Any, TypeVar", ""]
    lines += ["from fleet_paddle.imperative.tensor import Tensor", ""] if any(one.is_maker for one in found) else []
    lines += [_listed(one.spelling.name for one in found), 'X = TypeVar("X")', ""]
    lines += [one.stub() for one in found]
    return _HEAD % "E501" + "\n".join(lines) + "\n"


def of_classes() -> str:
    """The text of the table of layer classes."""
    found = sorted((one for one in functions() if one.layer), key=lambda one: one.layer)
    lines = ["from typing import Any", "", "from fleet_paddle.imperative.nn.base.of_function import FunctionLayer", ""]
    lines += [_listed(one.layer for one in found)]
    for one in found:
        given = [each for each in one.spelling.parameters[one.num_operands :] if each.name != "training"]
        settings = [each.typed for each in given]
        attributes = [f"{each.name}: {each.kind}" for each in given if each.name != "name"]
        lines += [
            f"class {one.layer}(FunctionLayer):",
            f'    """{one.doc}"""',
            *([f"    {'; '.join(attributes)}"] if attributes else []),
            f"    def __init__({', '.join(['self', *settings])}) -> None: ...",
        ]
    return _HEAD % "E501, E702" + "\n".join(lines) + "\n"


def _listed(names: Iterable[str]) -> str:
    return f"__all__ = [{', '.join(repr(name) for name in names)}]\n"


STUBS: dict[str, Callable[[], str]] = {
    "functions": lambda: of_functions(""),
    "functional": lambda: of_functions("F"),
    "classes": of_classes,
    "layers": lambda: of_layers(OWN),
}

if __name__ == "__main__":
    print(STUBS[sys.argv[1]](), end="")
