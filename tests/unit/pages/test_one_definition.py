"""A name of the C++ core stands for one type: two are linked as one, and each then destroys the memory of the other."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

CSRC = Path(__file__).parents[3] / "csrc"
_OPENED = re.compile(r"^namespace(?: ([\w:]+))? \{")
_CLOSED = re.compile(r"^\}  // namespace")
_TYPE = re.compile(r"^(?:class|struct|union|enum class|enum) (\w+)\b(?!::)[^;]*(?:\{|$)")


def types(path: Path) -> list[str]:
    """The types that a file defines for all others, with their namespaces; clang-format has each begin a line."""
    spaces: list[str] = []
    found = []
    for line in path.read_text().splitlines():
        if opened := _OPENED.match(line):
            spaces.append(opened[1] or "")
        elif _CLOSED.match(line):
            spaces.pop()
        elif (defined := _TYPE.match(line)) and all(spaces):
            found.append("::".join([*spaces, defined[1]]))
    return found


def test_every_type_is_defined_once() -> None:
    places = defaultdict(list)
    for path in sorted(CSRC.glob("*/*.[hc]*")):
        if path.parent.name != "test":
            for name in types(path):
                places[name].append(str(path.relative_to(CSRC)))
    assert len(places) > 50
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_a_second_definition_is_found(tmp_path: Path) -> None:
    header = tmp_path / "a.h"
    header.write_text(
        "namespace fleet {\nstruct Rows {\n};\nclass Later;\nnamespace {\nstruct Own {};\n}  // namespace\n"
    )
    assert types(header) == ["fleet::Rows"]
