"""The examples in PaddlePaddle's own documentation, found in a folder: docstrings of its sources, or .rst files.

Nothing of them is kept here. Examples of `.. code-block:: python` are found in every text of a .py file; those with
prompts (`>>> `) lose them. An example is called by its place: `paddle.nn.layer.common.Linear`, and `...Linear:2` for
the second one there.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from public.listing import ListError

EXPECTED = Path(__file__).parent / "lists" / "documented.json"

_DIRECTIVE = re.compile(r"^(?P<indent>[ \t]*)\.\. code-block:: *python\s*$")
_OPTION = re.compile(r"^\s*:[\w-]+:")


@dataclass(frozen=True)
class Example:
    """One example: what it is called, and its code."""

    name: str
    code: str

    @property
    def namespace(self) -> str:
        """Where it counts: `paddle.nn`, or `paddle.fluid.layers` below fluid."""
        parts = self.name.partition(":")[0].split(".")
        count = 3 if parts[1:2] == ["fluid"] else 2
        return ".".join(parts[: min(count, max(1, len(parts) - 1))])


def examples_of(folder: Path) -> list[Example]:
    """All examples below a folder, in the order of their names; ListError where there is none."""
    found: list[Example] = []
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".py", ".rst") or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if "code-block::" not in text:
            continue
        place = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        pieces = _in_source(text) if path.suffix == ".py" else [("", text)]
        found += _named(place[place.find("paddle") :] if "paddle" in place else place, pieces)
    if not found:
        raise ListError(f"{folder} has no `.. code-block:: python` in .py or .rst files; name a checkout's folder")
    return found


def _named(place: str, pieces: Sequence[tuple[str, str]]) -> Iterator[Example]:
    counts: dict[str, int] = {}
    for inside, text in pieces:
        name = f"{place}.{inside}" if inside else place
        for code in blocks_of(text):
            counts[name] = counts.get(name, 0) + 1
            yield Example(f"{name}:{counts[name]}" if counts[name] > 1 else name, code)


def _in_source(text: str) -> list[tuple[str, str]]:
    """Every string of a Python file, with the names of the functions and classes around it."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    found: list[tuple[str, str]] = []

    def visit(node: ast.AST, inside: tuple[str, ...]) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "code-block::" in node.value:
            found.append((".".join(inside), node.value))
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inside = (*inside, node.name)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(tree, ())
    return found


def blocks_of(text: str) -> list[str]:
    """The code of each `.. code-block:: python` of a text."""
    found, lines = [], text.expandtabs().splitlines()
    for number, line in enumerate(lines):
        if match := _DIRECTIVE.match(line):
            code = _block(lines[number + 1 :], len(match["indent"]))
            if code.strip():
                found.append(_without_prompts(code))
    return found


def _block(lines: Sequence[str], indent: int) -> str:
    """The lines that are indented deeper than the directive above them, without its options."""
    taken: list[str] = []
    for line in lines:
        if not taken and (not line.strip() or _OPTION.match(line)):
            continue
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        taken.append(line)
    return textwrap.dedent("\n".join(taken)).strip("\n") + "\n"


def _without_prompts(code: str) -> str:
    """The lines behind prompts, but for those that `# doctest: +SKIP` leaves out, up to `-SKIP` or on one line."""
    if not re.search(r"^>>> ?", code, re.MULTILINE):
        return code
    taken, is_left_out = [], False
    for line in code.splitlines():
        if not line.startswith((">>>", "...")):
            continue
        statement = line[4:]
        if re.match(r"\s*# doctest: *[+-]SKIP", statement):
            is_left_out = "+SKIP" in statement
        elif not is_left_out and "doctest: +SKIP" not in statement:
            taken.append(statement)
    return "\n".join(taken) + "\n"


@dataclass(frozen=True)
class Expected:
    """Why an example does not run: `upstream` where it runs nowhere, `here` where it is this package that refuses."""

    whose: str
    why: str


def read_expected(path: Path = EXPECTED) -> dict[str, Expected]:
    """The examples that are known not to run, by name; ListError for a line that means nothing."""
    said = json.loads(path.read_text())
    if not isinstance(said, Mapping) or said.keys() != {"upstream", "here"}:
        raise ListError(f"{path.name} must have the keys 'upstream' and 'here', got {sorted(said)}")
    found: dict[str, Expected] = {}
    for whose, reasons in said.items():
        for why, names in reasons.items():
            for name in names:
                if name in found:
                    raise ListError(f"{path.name}: {name!r} is there twice; give one reason")
                found[name] = Expected(whose, why)
    return found
