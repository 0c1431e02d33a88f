"""Packages that only some examples need."""

from __future__ import annotations

import importlib
from typing import Any

from fleet.errors import UsageError


def need(module: str, package: str, reason: str) -> Any:
    """The module; UsageError with the line that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(
            f"{reason} needs {package}: pip install {package}, or pip install 'torch-fleet[examples]' for all that "
            "the examples use"
        ) from None
