"""Kills from outside: a script of a user's (`din`), and kill -9 of fleetrun's children at moments of its work.

A seed says who dies and when: before anybody has joined, at a step, when a save has begun, shortly before and behind
the end of training; alone, with one of the other role right behind, and again as soon as its next life is there. The
moments are those of the job itself, read off what it prints and writes, so they are the same on a slow machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos import din
from chaos.runs import Outcome
from chaos.state import digest_of
from fleet import checkpoint
from support.jobs import Result, RunningJob

SCRIPT = Path(din.__file__)
LIMIT_S = 240.0
POLL_S = 0.002
# The longest pause behind the start of processes, behind the beginning of a save, and behind the last validation.
START_S, SAVE_S, END_S = 1.5, 0.05, 0.15
ENVIRON = {"OMP_NUM_THREADS": "1"}
BACK = re.compile(r"((?:server|worker) \d) back after ([\d.]+ s(?:(?:,| and) [\d.]+ s)*)")
MOMENTS = ("start", "step", "save", "stop", "end")
VICTIMS = (("worker",), ("server",), ("worker", "server"), ("server", "worker"))


@dataclass(frozen=True)
class Blow:
    """Who is killed at which moment; `far` of the way from it to the next one, from 0 to 1."""

    moment: str
    number: int
    victims: tuple[tuple[str, int], ...]
    far: float
    is_repeated: bool
    """The first victim dies once more, when its next life has begun."""

    def __str__(self) -> str:
        names = " then ".join(f"{role} {index}" for role, index in self.victims)
        again = ", and again" if self.is_repeated else ""
        return f"kill {names}{again} at {self.moment} {self.number} + {self.far:.2f}"


@dataclass(frozen=True)
class Expected:
    """What a run comes to that nothing happens to, and what moments it has."""

    found: list[Any]
    digest: str
    num_measured: int
    saves: tuple[int, ...]


def blow_of(seed: int, expected: Expected) -> Blow:
    """Every combination of a moment and victims comes once in 20 seeds; the rest is drawn."""
    draw = random.Random(f"outside {seed}")
    moment, roles = MOMENTS[seed % 5], VICTIMS[seed // 5 % 4]
    numbers = {
        "start": (0,),
        "step": tuple(range(1, expected.num_measured - 1)),
        "save": expected.saves,
        "stop": (expected.num_measured - 1,),
        "end": (expected.num_measured,),
    }
    victims = tuple((role, draw.randrange(2)) for role in roles)
    return Blow(moment, draw.choice(numbers[moment]), victims, draw.random(), draw.random() < 0.35)


def undisturbed(folder: Path) -> Expected:
    """Two runs that nothing happens to, which must agree."""
    runs = []
    for _ in range(2):
        with _start(folder) as job:
            result = job.finish(LIMIT_S)
        assert result.code == 0, result.err
        assert "started again" not in result.err, result.err
        runs.append((_found(folder), digest_of(_last(folder))))
    assert runs[0] == runs[1], f"two undisturbed runs differ: {runs}"
    steps = runs[0][0][0]["steps"][0]
    saves = tuple(range(din.SAVE_EVERY, steps + 1, din.SAVE_EVERY))
    shutil.rmtree(folder)
    return Expected(*runs[0], steps // din.MEASURE_EVERY, saves)


def run(seed: int, folder: Path, expected: Expected, *, keeps: bool = False) -> Outcome:
    """Run the script, kill as the seed says, and compare."""
    blow = blow_of(seed, expected)
    outcome = Outcome("outside", seed, str(blow), 0.0)
    with _start(folder) as job:
        try:
            began = time.monotonic()
            _strike(job, folder, blow)
            result = job.finish(LIMIT_S)
            outcome.seconds = time.monotonic() - began
        except AssertionError as error:  # it did not end
            outcome.problems.append(str(error).partition("\n")[0])
            outcome.said = str(error)
        else:
            _judge(outcome, result, folder, expected)
    if not outcome.problems and not keeps:
        shutil.rmtree(folder)
    return outcome


def _start(folder: Path) -> RunningJob:
    shutil.rmtree(folder, ignore_errors=True)
    din.write_shop(folder / "data")
    arguments = ["--server_num", 2, "--worker_num", 2, "--durable", "kept", SCRIPT, "data", "."]
    return RunningJob(arguments, folder, ENVIRON, warm=True)


def _strike(job: RunningJob, folder: Path, blow: Blow) -> None:
    if not _comes(job, folder, blow):
        return
    dead = 0
    for victim in blow.victims:
        pid = children(job).get(victim, 0)
        dead = dead or pid
        _kill(pid)
    first = blow.victims[0]
    if blow.is_repeated and dead and _wait(lambda: children(job).get(first, dead) != dead, job):
        time.sleep(blow.far)  # its next life is starting, or has joined again
        _kill(children(job).get(first, 0))


def _comes(job: RunningJob, folder: Path, blow: Blow) -> bool:
    """Wait for the moment, and for `far` of the way to the next; False if the job has ended."""
    if not _wait(lambda: len(children(job)) == 4, job):
        return False
    if blow.moment == "start":
        time.sleep(blow.far * START_S)
        return True
    if blow.moment == "save":
        found = _wait(lambda: any(folder.glob(f"checkpoints/*step-{blow.number:08d}*")), job)
        time.sleep(blow.far * SAVE_S)
        return found
    _wait(lambda: _measured(folder) >= blow.number - 1, job)
    began = time.monotonic()
    found = _wait(lambda: _measured(folder) >= blow.number, job)
    time.sleep(blow.far * (time.monotonic() - began if blow.moment != "end" else END_S))
    return found


def _wait(condition: Callable[[], bool], job: RunningJob) -> bool:
    """Poll until it holds; False if the job ends before."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        if job.ends_within(POLL_S):
            return False
        assert time.monotonic() < deadline, f"the job did not come that far within {LIMIT_S} s"
    return True


def _measured(folder: Path) -> int:
    """How many validations worker 0 has told of."""
    log = folder / "log" / "workerlog.0"
    steps = re.findall(r"^step (\d+): ", log.read_text(), re.MULTILINE) if log.exists() else []
    return max(map(int, steps), default=0) // din.MEASURE_EVERY


def children(job: RunningJob) -> dict[tuple[str, int], int]:
    """Process ids of the servers and workers of a fleetrun: its children, by the names in its log."""
    own = {pid for path in Path("/proc", str(job.pid), "task").glob("*/children") for pid in path.read_text().split()}
    found = {}
    for path in (job.cwd / "log" / "observe").glob("*log.*.*.json"):
        name, index, pid, _ = path.name.split(".")
        if pid in own:
            found[name.removesuffix("log"), int(index)] = int(pid)
    return found


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        if pid:
            os.kill(pid, signal.SIGKILL)


def _judge(outcome: Outcome, result: Result, folder: Path, expected: Expected) -> None:
    for role in re.findall(r"(server|worker) \d+ was killed by SIGKILL; started again", result.err):
        outcome.counts[f"kill {role}"] += 1
    if not outcome.counts:
        outcome.counts["came too late"] = 1
    outcome.recoveries = [
        {"process": process, "back_s": float(text), "step_s": None}
        for process, times in BACK.findall(result.err)
        for text in re.findall(r"[\d.]+", times)
    ]
    if result.code != 0:
        outcome.problems.append(f"exit code {result.code}")
        outcome.said = result.err
        return
    if strange := [line for line in result.err.splitlines() if "ended with" in line]:
        outcome.problems.append(f"a process failed by itself: {strange[0]}")
    if (found := _found(folder)) != expected.found:
        outcome.problems.append(f"workers found {found}, undisturbed {expected.found}")
    if digest_of(_last(folder)) != expected.digest:
        outcome.problems.append("the last checkpoint is not that of the undisturbed run")
    if left := [path.name for path in (folder / "kept").glob("*/*") if path.name != "lock"]:
        outcome.problems.append(f"files are left in the folder of --durable: {', '.join(sorted(left))}")
    outcome.said = result.err


def _found(folder: Path) -> list[Any]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("found-*.json"))]


def _last(folder: Path) -> Path:
    """The newest checkpoint."""
    return checkpoint.find(folder / "checkpoints" / f"step-{_found(folder)[0]['steps'][0]:08}")
