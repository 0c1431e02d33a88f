"""Where the original files of a dataset are, and what is said when they are not there."""

from __future__ import annotations

import sys
from pathlib import Path

from fleet import env

_said: set[str] = set()


def folder(dataset: str) -> Path:
    """The folder of a dataset's original files, be it there or not."""
    home = env.FLEET_DATA_HOME.get() or "~/.cache/fleet/datasets"
    return Path(home).expanduser() / dataset


def original(dataset: str, *names: str) -> list[Path] | None:
    """The paths of these files, or None, said once on stderr, unless all of them are there."""
    place = folder(dataset)
    paths = [place / name for name in names]
    missing = [path.name for path in paths if not path.is_file()]
    if not missing:
        return paths
    if dataset not in _said:
        _said.add(dataset)
        print(
            f"fleet_paddle.dataset: no {', '.join(missing)} in {place}; {dataset} is synthetic, of the same shape. Put "
            "the original files there, or set FLEET_DATA_HOME to the folder above.",
            file=sys.stderr,
        )
    return None
