"""Which examples of a documentation did what was expected of them: all run, but for those that the list names."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from public.documented import Example, Expected, examples_of, read_expected
from public.forking import Ran, run_all
from public.running import environ_of

VARIABLE = "FLEET_PUBLIC_DOCUMENTATION"
JOBS = 2


@dataclass(frozen=True)
class Judged:
    """What became of the examples of one namespace, and the lines that say what was not expected."""

    namespace: str
    ran: int
    upstream: int
    here: int
    problems: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many examples there are."""
        return self.ran + self.upstream + self.here + len(self.problems)


def judge(examples: Sequence[Example], ran: Sequence[Ran], expected: dict[str, Expected]) -> list[Judged]:
    """By namespace. An example that fails and is not in the list is a problem; so is one of the list that runs."""
    spaces: dict[str, list[tuple[Ran, Expected | None]]] = {}
    for example, one in zip(examples, ran, strict=True):
        spaces.setdefault(example.namespace, []).append((one, expected.get(example.name)))
    return [_judged(space, found) for space, found in sorted(spaces.items())]


def _judged(space: str, found: Sequence[tuple[Ran, Expected | None]]) -> Judged:
    failed = [known.whose for one, known in found if one.code != 0 and known is not None]
    problems = [f"{one.name}: {one.reason}" for one, known in found if one.code != 0 and known is None]
    problems += [
        f"{one.name}: runs; take it off the list" for one, known in found if one.code == 0 and known is not None
    ]
    ran = sum(one.code == 0 and known is None for one, known in found)
    return Judged(space, ran, failed.count("upstream"), failed.count("here"), tuple(problems))


def run_documentation(folder: Path, names: Sequence[str] = ()) -> bool:
    """Run the examples below a folder, or those whose names begin so, and show what became; whether all is well."""
    examples = [one for one in examples_of(folder) if not names or one.name.startswith(tuple(names))]
    with tempfile.TemporaryDirectory(prefix="fleet-documented-") as made:
        ran = run_all([(one.name, one.code) for one in examples], environ_of({}, Path(made)), JOBS)
    judged = judge(examples, ran, read_expected())
    table = Table("examples of", box=None)
    for title in ("run", "broken upstream", "refused here", "unexpected"):
        table.add_column(title, justify="right")
    for one in judged:
        table.add_row(one.namespace, *map(str, (one.ran, one.upstream, one.here, len(one.problems))))
    console = Console(width=None if os.isatty(1) else 120)
    console.print(table)
    for one in judged:
        for problem in one.problems:
            console.print(problem, style="red", markup=False, highlight=False, soft_wrap=True)
    console.print(f"{sum(one.ran for one in judged)} of {sum(one.count for one in judged)} examples run")
    return not any(one.problems for one in judged)
