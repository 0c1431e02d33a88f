"""Files beside a script that take the place of packages."""

from __future__ import annotations

from pathlib import Path

from fleet.errors import UsageError


def refuse_shadows(folder: Path) -> None:
    """UsageError if a script in this folder would import a file of it for Fleet or torch."""
    for name in ("fleet", "torch"):
        if (path := folder / f"{name}.py").is_file():
            raise UsageError(f"{path} hides the package {name} from the scripts beside it; give the file another name")
