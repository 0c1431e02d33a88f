"""Runs one public script in a copy of its folder, and judges the numbers that it prints."""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from public import data
from public.listing import Script

# A script that was killed has this long to let go of its files.
GRACE_S = 20.0
LAST_LINES = 6


@dataclass(frozen=True)
class Outcome:
    """What became of a script; `problem` is one line, and empty where all was as expected."""

    script: Script
    problem: str
    values: tuple[float, ...]
    seconds: float
    output: str

    @property
    def passed(self) -> bool:
        return not self.problem


def run(script: Script, folder: Path, scratch: Path) -> Outcome:
    """Run a script of that folder in copies below `scratch`, which stay there for whoever wants to look."""
    copy_folders(script, folder, scratch)
    cwd = scratch / script.cwd
    if script.data is not None:
        data.function(script.data)(cwd)
    began = time.monotonic()
    code, output = _run_command(script, scratch, cwd)
    seconds = time.monotonic() - began
    for pattern in script.logs:
        for path in sorted(cwd.glob(pattern)):
            output += f"\n{path.read_text(errors='replace')}"
    values = values_of(output, script.value)
    if code is None:
        problem = f"did not end within {script.timeout_s:g} s; {_last_lines(output)}"
    elif code != 0:
        problem = f"ended with exit code {code}; {_last_lines(output)}"
    else:
        problem = judge(values, script.expect)
        problem = f"{problem}; {_last_lines(output)}" if problem and len(values) < 2 else problem
    return Outcome(script, f"{script.name}: {problem}" if problem else "", values, seconds, output)


def copy_folders(script: Script, folder: Path, scratch: Path) -> None:
    """Copies of what the script needs, at the places where they lie in the folder of scripts."""
    for name in (script.cwd, *script.beside):
        source, target = folder / name, scratch / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".git"))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def command_of(script: Script, scratch: Path) -> list[str]:
    """The command, with the interpreter and the launcher of this environment."""
    beside = Path(sys.executable).parent
    first, *rest = (word.replace("{root}", str(scratch)) for word in script.command)
    programs = {"python": sys.executable, "fleetrun": str(beside / "fleetrun")}
    return [programs.get(first, first), *rest]


def environ_of(env: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """This process's environment without what belongs to jobs, and with `env`, what a script's line says."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "FLEET_TEST_MARK" or not name.startswith(("FLEET_", "PADDLE_", "PYTEST_", "TRAINING_"))
    }
    own = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', os.defpath)}",
        "FLEET_DEVICE": "cpu",
        "FLEET_DATA_HOME": str(scratch / "data-home"),
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return kept | own | {name: value.replace("{root}", str(scratch)) for name, value in env.items()}


def values_of(output: str, pattern: str) -> tuple[float, ...]:
    """Every number that the pattern's group finds, in order."""
    found = []
    for text in re.findall(pattern, output):
        with suppress(ValueError):
            found.append(float(text.strip("[](), ")))
    return tuple(found)


def judge(values: Sequence[float], expect: str) -> str:
    """What is wrong with the values, in a few words; nothing where the last fifth is on the right side of the first."""
    if len(values) < 2:
        return f"printed {len(values)} values, and two are the least that can fall or rise"
    if not all(math.isfinite(one) for one in values):
        number, bad = next((number, one) for number, one in enumerate(values, 1) if not math.isfinite(one))
        return f"value {number} of {len(values)} is {bad}"
    part = max(1, len(values) // 5)
    first, last = sum(values[:part]) / part, sum(values[-part:]) / part
    if last < first if expect == "falls" else last > first:
        return ""
    verb = "fall" if expect == "falls" else "rise"
    return f"{len(values)} values did not {verb}: {first:.6g} at first, {last:.6g} at last"


def _run_command(script: Script, scratch: Path, cwd: Path) -> tuple[int | None, str]:
    """Exit code, or None where the time was up, and all that was printed; nothing of it runs on."""
    log = scratch / "output.txt"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command_of(script, scratch),
            cwd=cwd,
            env=environ_of(script.env, scratch),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(script.timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end(process)
    return code, log.read_text(errors="replace")


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill the command's group, and the descendants that have left it for sessions of their own."""
    family: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for one in family:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait(GRACE_S)
    psutil.wait_procs(family, GRACE_S)


def _last_lines(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return "it printed nothing" if not lines else "its last lines: " + " | ".join(lines[-LAST_LINES:])
