"""Prints the page of all names from the tables: `python -m paddle._reference`; `make site` has it as a page."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from paddle import _alias

INTRODUCTION = """\
# Names of PaddlePaddle

Every name that `import paddle` knows, module by module, and what stands behind it; one that is not built says what to
use instead. A name that is not here raises an error that says what comes closest. `make site` makes this page from
the tables that the names come from, and `python -m paddle._reference` prints it; [paddle.md](paddle.md) is the guide.
"""


def page() -> str:
    """The whole page."""
    _alias.load_all()
    return INTRODUCTION + "".join(_section(name) for name in sorted(_alias.TABLES))


def _section(module: str) -> str:
    names = _alias.TABLES[module]
    parts = set(names.parts.split())
    table = {name: target for name, target in names.table().items() if name not in parts}
    if not table and not names.refused:
        return ""
    text = f"\n## {module}\n\n{importlib.import_module(module).__doc__}\n"
    if table:
        text += "\n| names | in Fleet |\n|---|---|\n" + "".join(_rows(table))
    if names.refused:
        text += "\n| not built | instead |\n|---|---|\n"
        text += "".join(f"| `{name}` | {names.refused[name]} |\n" for name in sorted(names.refused, key=_order))
    return text


def _rows(table: dict[str, str]) -> Iterator[str]:
    """A row for the names of each home that are the same there, then one for each that is another."""
    homes: dict[str, list[str]] = {}
    others = []
    for name in sorted(table, key=_order):
        home, _, own = table[name].partition(":")
        if own == name:
            homes.setdefault(home, []).append(f"`{name}`")
        else:
            others.append(f"| `{name}` | `{table[name].replace(':', '.')}` |\n")
    yield from (f"| {', '.join(names)} | `{home}` |\n" for home, names in sorted(homes.items()))
    yield from others


def _order(name: str) -> tuple[str, str]:
    return name.lower(), name


if __name__ == "__main__":
    print(page(), end="")
