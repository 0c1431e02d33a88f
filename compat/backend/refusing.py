"""The build of this distribution: scikit-build-core's, refused where a real paddlepaddle is installed.

pip has no word for conflicts, and installs a finished wheel without asking it; so the package asks again when it is
imported. Here the question can only be answered where the build sees the environment: with --no-build-isolation.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

from scikit_build_core import build as _plain
from scikit_build_core.build import *  # noqa: F403 - a backend is a module with these functions

REAL = ("paddlepaddle", "paddlepaddle-gpu")


def build_wheel(*args: Any, **named: Any) -> str:
    _refuse()
    return _plain.build_wheel(*args, **named)


def build_editable(*args: Any, **named: Any) -> str:
    _refuse()
    return _plain.build_editable(*args, **named)


def _refuse() -> None:
    for name in REAL:
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        raise SystemExit(f"{name} {found} is installed, and is called paddle too; pip uninstall {name} first")
