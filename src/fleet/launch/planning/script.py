"""The command that every process of a job runs, and whether there is such a script."""

from __future__ import annotations

import importlib.machinery
import os
import sys
from pathlib import Path

from fleet.errors import UsageError
from fleet.launch.arguments.options import Options

SELFCHECK_MODULE = "fleet_tools.selfcheck"
SPARE_COMMAND = (sys.executable, "-m", "fleet.runtime.spare")
"""What becomes a worker when it is told which."""
COPY_COMMAND = (sys.executable, "-m", "fleet.ps.server")
"""What a copy of a server runs: servers are generic."""


def refuse_shadows(folder: Path) -> None:
    """UsageError if a script in this folder would import a file of it for Fleet or torch."""
    for name in ("fleet", "torch"):
        if (path := folder / f"{name}.py").is_file():
            raise UsageError(f"{path} hides the package {name} from the scripts beside it; give the file another name")


def command(options: Options) -> tuple[str, ...]:
    """What to run, whether it is there or not."""
    if options.selfcheck:
        return (sys.executable, "-m", SELFCHECK_MODULE)
    if options.module:
        return (sys.executable, "-m", options.script, *options.script_args)
    is_like_an_option = options.script.startswith("-")  # of python
    return (sys.executable, f"./{options.script}" if is_like_an_option else options.script, *options.script_args)


def refuse_script(options: Options) -> None:
    """UsageError if there is no script, or not where it was said to be."""
    if options.selfcheck:
        return
    if not options.script:
        raise UsageError(
            "no training script; write it after the options, for example: fleetrun --nproc_per_node 2 train.py"
        )
    if options.module:
        package = options.script.partition(".")[0]
        if importlib.machinery.PathFinder.find_spec(package, [os.getcwd(), *sys.path]) is None:
            raise UsageError(f"-m {options.script}: there is no module {package}; is it installed, or in this folder?")
        return
    path = Path(options.script)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"training script {options.script} {what}; it comes after fleetrun's own options")
    with path.open("rb") as file:
        interpreter = file.readline(200)
    if interpreter.startswith(b"#!") and b"python" not in interpreter:
        raise UsageError(
            f"training script {options.script} begins with {interpreter.decode(errors='replace').strip()!r}, and "
            "fleetrun starts Python scripts; give it the script that this one starts"
        )
    refuse_shadows(path.parent)
