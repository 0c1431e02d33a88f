"""`require_version`: a script that says which versions it was written for."""

from __future__ import annotations

import re

from fleet.errors import UsageError, UsageTypeError
from fleet_paddle.tools.version import full_version


def require_version(min_version: str, max_version: str | None = None) -> None:
    """UsageError unless the version whose names these are lies between the two, both included."""
    least = _numbers("min_version", min_version)
    most = None if max_version is None else _numbers("max_version", max_version)
    own = _numbers("full_version", full_version)
    if own < least or (most is not None and own > most):
        wanted = f"{min_version} or later" if max_version is None else f"{min_version} to {max_version}"
        raise UsageError(f"version {wanted} is required, and the names here are those of {full_version}")


def _numbers(name: str, text: object) -> tuple[int, ...]:
    if not isinstance(text, str):
        raise UsageTypeError(f"{name} must be text, got {text!r}")
    if re.fullmatch(r"\d+(\.\d+){0,3}", text) is None:
        raise UsageError(f"{name} must be numbers with dots between them, such as '1.8.0', got {text!r}")
    return tuple(int(part) for part in f"{text}.0.0.0".split(".")[:4])
