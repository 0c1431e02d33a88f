"""Options of fleetrun behind the script: the script would get them, and the job would be another than was asked for.

What follows the script is the script's. Only where a word there is an option of fleetrun, and the script's own text
does not name it, is that taken for a mistake. `--` before the script says that it is none.
"""

import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

import click

from fleet.errors import UsageError

_EVERYBODYS = {"--help", "--version", "--seed"}
"""What every program has, or every other one."""


def refuse_misplaced(
    parser: click.Command, words: Sequence[str], num_script_args: int, program: str, *, is_module: bool = False
) -> None:
    """UsageError with the command that was meant, if options of `parser` stand among the arguments of the script."""
    place = len(words) - num_script_args - 1
    before, script, after = list(words[:place]), words[place], list(words[place + 1 :])
    if before[-1:] == ["--"]:
        return
    moved, rest = _divide(after, _long_options(parser), _text_of(_file_of(script) if is_module else script))
    if not moved:
        return
    names = [word.partition("=")[0] for word in moved if word.startswith("--")]
    meant = shlex.join([program, *before, *moved, script, *rest])
    taken = shlex.join([program, *before, "--", script, *after])
    is_one = len(names) == 1
    raise UsageError(
        f"{', '.join(names)} {'stands' if is_one else 'stand'} after the script, which would get "
        f"{'it' if is_one else 'them'}; for fleetrun write: {meant} (for the script: {taken})"
    )


def _long_options(parser: click.Command) -> dict[str, bool]:
    """The options that are written with two dashes, and whether each takes a value."""
    options = [one for one in parser.params if isinstance(one, click.Option)]
    names = {name: not one.is_flag for one in options for name in one.opts if name.startswith("--")}
    return {name: takes for name, takes in names.items() if name not in _EVERYBODYS}


def _divide(words: Sequence[str], known: Mapping[str, bool], text: str) -> tuple[list[str], list[str]]:
    """The words that are options of fleetrun with their values, and the others; what `text` names is the script's."""
    moved: list[str] = []
    rest: list[str] = []
    left = list(words)
    while left and left[0] != "--":
        word = left.pop(0)
        name, equals, _ = word.partition("=")
        if name not in known or name in text:
            rest.append(word)
            continue
        moved.append(word)
        if known[name] and not equals and left:
            moved.append(left.pop(0))
    return moved, rest + left


def _file_of(module: str) -> str:
    """The file that `python -m module` would run, found without importing anything; empty if there is none."""
    path: list[str] | None = ["", *sys.path]
    places: list[str] = []
    found = None
    for name in module.split("."):
        found = PathFinder.find_spec(name, path)
        if found is None:
            return ""
        path = places = list(found.submodule_search_locations or ())
    main = PathFinder.find_spec("__main__", places) if places else found
    return (main and main.origin) or ""


def _text_of(script: str) -> str:
    """The script, or nothing for one that cannot be read."""
    try:
        return Path(script).read_text(errors="replace")
    except OSError:
        return ""
