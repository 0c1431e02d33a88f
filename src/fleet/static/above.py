"""What carries out the part of a program that talks to others: modules above this package, which knows none of them.

They are named here and nowhere else below them, and imported when a program with servers or trainers needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

KERNELS = "fleet.runtime.programs.kernels"


def saving() -> Any:
    """What saves and loads a program whose parameters are on servers."""
    return import_module("fleet.runtime.programs.saving")


def home() -> Any:
    """What brings the values of such a program home, into a program and a scope of one process."""
    return import_module("fleet.runtime.programs.home")
