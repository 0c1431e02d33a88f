"""What the benchmarks against other systems share: taking turns, and the options that say where the others are."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import click
from peers import RunError
from rich.console import Console
from rich.progress import Progress

T = TypeVar("T")
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def take_turns(
    contestants: Mapping[str, Callable[[Path], T]], rounds: int, *, within_s: float = math.inf
) -> tuple[dict[str, list[T]], dict[str, str]]:
    """What each contestant reported by round, and why those failed that did; one that failed is not run again.

    Each is called with an empty folder of its own. The order is another in every round, and the same in every run of
    the benchmark: nobody always runs on the machine that a certain other one leaves behind. After `within_s` no other
    run begins, and some contestants may have one more than others.
    """
    found: dict[str, list[T]] = {name: [] for name in contestants}
    failures: dict[str, str] = {}
    last_start = time.monotonic() + within_s
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=rounds * len(contestants))
        for turn in range(rounds):
            for name in random.Random(turn).sample(list(contestants), len(contestants)):
                if time.monotonic() > last_start:
                    progress.console.print(f"{within_s:g} s are over in round {turn + 1} of {rounds}: it ends here")
                    return found, failures
                progress.update(task, description=f"round {turn + 1} of {rounds}: {name}")
                if name not in failures:
                    with TemporaryDirectory() as folder:
                        try:
                            found[name].append(contestants[name](Path(folder)))
                            progress.console.print(f"{name}: {found[name][-1]!s:.100}", markup=False, highlight=False)
                        except RunError as failure:
                            failures[name] = str(failure)
                            progress.console.print(f"{name} failed: {failure}", markup=False)
                progress.advance(task)
    return found, failures


def pythons_option(names: Collection[str]) -> Decorator:
    """`--peers-python NAME=PATH`, given to the command as `pythons`, a dict."""

    def parse(_context: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Path]:
        pythons = {}
        for pair in pairs:
            name, _, path = pair.partition("=")
            if name not in names:
                raise click.BadParameter(f"{name!r} is none of {', '.join(names)}; give NAME=PATH")
            if not Path(path).is_file():
                raise click.BadParameter(f"{name}: {path!r} is not a file; give the path of a Python")
            pythons[name] = Path(path).absolute()  # not resolved: a venv's Python is a link
        return pythons

    return click.option(
        "--peers-python",
        "pythons",
        multiple=True,
        metavar="NAME=PATH",
        callback=parse,
        help=f"The Python that has a system installed: one of {', '.join(names)}. May be repeated.",
    )


scripts_option: Decorator = click.option(
    "--peers-scripts",
    "scripts",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(__file__).parents[2] / "shared" / "peers",
    help="The folder of the other systems' scripts; what needs them is left out when it is not there.",
)
