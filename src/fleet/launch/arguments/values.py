"""Values of options: folders, numbers, and options whose value may be left out."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from fleet.errors import UsageError
from fleet.launch.arguments.options import Nodes


def check_folder(path: Path, option: str = "--log_dir") -> None:
    """Refuse a folder that cannot be made or written to, without making it."""
    try:
        nearest = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    except OSError as error:  # the working folder is gone
        raise UsageError(f"{option} {path}: {error.strerror}; go to a folder that exists") from error
    if not nearest.is_dir():
        raise UsageError(f"{option} {path}: {nearest} is not a folder; choose another")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"{option} {path}: {nearest} cannot be written to; choose another")


class WholeNumber(click.ParamType[int]):
    """A whole number within bounds, refused in the words of the rest of fleetrun."""

    name = "N"

    def __init__(self, least: int, most: int | None = None) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ARG002
        """The number; UsageError that names the option and the bounds for anything else."""
        bounds = f">= {self._least}" if self._most is None else f"from {self._least} to {self._most}"
        option = param.opts[0] if param is not None else "this option"
        try:
            number = int(value)
        except ValueError:
            number = self._least - 1
        if number < self._least or (self._most is not None and number > self._most):
            hint = "; leave it out for one worker per GPU" if value in ("gpu", "auto") else ""
            raise UsageError(f"{option} must be a whole number {bounds}, got {value}{hint}")
        return number


class NumberOrRange(click.ParamType[Nodes]):
    """How many there are, `2`, or how many there may be, `1:8`."""

    name = "N|A:B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Nodes:
        """The number or the range; UsageError that names the option for anything else."""
        if ":" not in str(value):
            number = WholeNumber(1).convert(value, param, ctx)
            return Nodes(number, number)
        option = param.opts[0] if param is not None else "this option"
        return Nodes.parse(str(value), option, "process")


def with_optional_value(
    command: click.Command, arguments: Sequence[str], option: str, default: str, *, takes_next: bool = True
) -> list[str]:
    """The same arguments, with `option=value` where `option` stands among fleetrun's own.

    Its value is the next argument if that is a number, else the default; without `takes_next` it is given by `=` only.
    What follows the script is not looked at.
    """
    flags = {name for one in command.params if isinstance(one, click.Option) and one.is_flag for name in _names(one)}
    found, rest = [], list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        name = rest.pop(0)
        if name == option:
            is_given = takes_next and rest and rest[0].isascii() and rest[0].isdigit()
            value = rest.pop(0) if is_given else default
            found.append(f"{option}={value}")
            continue
        found.append(name)
        if "=" not in name and name not in flags and rest:
            found.append(rest.pop(0))
    return [*found, *rest]


def _names(option: click.Option) -> list[str]:
    return [*option.opts, *option.secondary_opts]
