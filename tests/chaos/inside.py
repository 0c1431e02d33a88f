"""Kills inside changes of several servers: a job that makes many (`changes`), and kill -9 while one is under way.

A worker writes a change into its outbox before the first server gets it, and takes it out behind the last: while that
file is there a process dies, as the seed says: the worker, a server, or one right after the other. Calls come late,
are lost and repeated, and in a third of the runs no journal can be written for a while, so that every change takes
some time. What is saved at the end must be that of a job that nothing happened to.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from chaos import changes
from chaos.outside import children
from chaos.runs import ENVIRON, Outcome
from chaos.state import digest_of, rows_of
from support.jobs import RunningJob

SCRIPT = Path(changes.__file__)
LIMIT_S, POLL_S = 120.0, 0.0005
VICTIMS = (("worker",), ("server",), ("worker", "server"), ("server", "worker"), ("server", "server"))
MODES = ("sync", "async")


def mode_of(seed: int) -> str:
    """Both in turns."""
    return MODES[seed % 2]


def faults_of(seed: int) -> str:
    """The text of `--chaos` of a seed."""
    draw = random.Random(f"inside {seed}")
    clauses = [f"delay {draw.randint(10, 30)}% {draw.randint(5, 40)}ms", "drop 2% rpc", "repeat 3% rpc"]
    if seed % 3 == 0:
        # Not at the very start: a server that has nothing yet does not wait for room, and says so.
        clauses.append(f"disk-full at {draw.randint(2000, 3500)}ms for {draw.randint(300, 900)}ms")
    return "; ".join(clauses)


def undisturbed(folder: Path, modes: Sequence[str] = MODES) -> dict[str, str]:
    """For each mode, the digest of what is saved by a job that nothing happens to."""
    found = {}
    for mode in modes:
        digests = set()
        for _ in range(2):
            with _start(folder, mode) as job:
                result = job.finish(LIMIT_S)
            assert result.code == 0, result.err
            digests.add(_found(folder, mode))
        assert len(digests) == 1, f"two undisturbed runs in {mode} mode differ"
        found[mode] = digests.pop()
    shutil.rmtree(folder)
    return found


def run(seed: int, folder: Path, expected: dict[str, str], *, keeps: bool = False) -> Outcome:
    """Run the job, kill inside changes as the seed says, and compare."""
    draw = random.Random(f"inside {seed}")
    victims = [(role, draw.randrange(2)) for role in VICTIMS[seed % len(VICTIMS)]]
    numbers = sorted(draw.sample(range(12), 2))
    outcome = Outcome("inside", seed, f"{faults_of(seed)}; kill {victims} in changes {numbers}", 0.0)
    began = time.monotonic()
    with _start(folder, mode_of(seed), "--chaos", faults_of(seed), "--seed", seed) as job:
        try:
            _strike(job, folder, victims, numbers, draw, outcome)
            result = job.finish(LIMIT_S)
        except AssertionError as error:  # it did not end
            outcome.problems.append(str(error).partition("\n")[0])
            outcome.said = str(error)
        else:
            outcome.said = result.err
            if result.code != 0:
                outcome.problems.append(f"exit code {result.code}")
            elif (found := _found(folder, mode_of(seed))) != expected[mode_of(seed)]:
                outcome.problems.append(f"what is saved is not that of the undisturbed run: {found}")
            _judge(outcome, folder)
    outcome.seconds = time.monotonic() - began
    if not outcome.problems and not keeps:
        shutil.rmtree(folder)
    return outcome


def _found(folder: Path, mode: str) -> str:
    """What was saved; in async mode without the times of rows, which depend on the order of pushes."""
    return digest_of(folder / "saved") if mode == "sync" else rows_of(folder / "saved")


def _judge(outcome: Outcome, folder: Path) -> None:
    report = folder / "log" / "chaos.json"
    if report.exists():
        outcome.counts.update(json.loads(report.read_text())["counts"])
    if not any(name.startswith("inside") for name in outcome.counts):
        outcome.counts["came too late"] = 1


def _start(folder: Path, mode: str, *more: object) -> RunningJob:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    job = [SCRIPT, "--mode", mode, "--save", folder / "saved"]
    return RunningJob(
        ["--server_num", 2, "--worker_num", 2, "--durable", "kept", *more, *job], folder, ENVIRON, warm=True
    )


def _strike(
    job: RunningJob,
    folder: Path,
    victims: list[tuple[str, int]],
    numbers: list[int],
    draw: random.Random,
    outcome: Outcome,
) -> None:
    """Kill while the change is under way that is the so-and-so-many-th; `numbers` ascend."""
    num_seen, was_there, deadline = 0, False, time.monotonic() + LIMIT_S
    while numbers and time.monotonic() < deadline:
        if job.ends_within(POLL_S):
            return
        found = list((folder / "kept").glob("worker-*/change"))
        is_there = bool(found)
        num_seen += is_there and not was_there
        was_there = is_there
        if not is_there or num_seen <= numbers[0]:
            continue
        numbers.pop(0)
        time.sleep(draw.random() * 0.01)
        is_inside = found[0].exists()
        for role, index in victims:
            who = (role, int(found[0].parent.name.removeprefix("worker-"))) if role == "worker" else (role, index)
            if pid := children(job).get(who, 0):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    outcome.counts[f"inside: kill {role}" if is_inside else f"beside: kill {role}"] += 1
