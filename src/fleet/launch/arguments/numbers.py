"""Numbers on a command line, refused in the words of the rest of fleetrun."""

from __future__ import annotations

from typing import Any

import click

from fleet.errors import UsageError


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
