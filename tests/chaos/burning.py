"""Machines that burn: three in a network of their own, kill -9 of all on one, and its disk, at moments a seed draws.

Each machine has a server with a copy elsewhere and a worker. One burns, of some runs another one when new copies are
whole; that of the meeting point like the others. In sync mode the model must be that of a run without fire, bit by
bit; in async mode each sample must have counted once.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from chaos.runs import Outcome
from support.durable import burning_job
from support.hosts import switched_network
from support.jobs import Result
from support.machines import Machines

SCRIPT = Path(burning_job.__file__)
NUM_MACHINES, NUM_STEPS, PAUSE_MS = 3, 60, 40
LIMIT_S = 120.0
POLL_S = 0.005
ENVIRON = {"OMP_NUM_THREADS": "1", "FLEET_MACHINE_TIMEOUT_S": "5"}
STEP = re.compile(r"^step (\d+) ([\d.]+)$", re.MULTILINE)
END = re.compile(r"^model (\w+)\ncounted (\d+) of (\d+)$", re.MULTILINE)
NEAR_S = 5.0
"""How soon after a fire the gap is looked for that it made."""


@dataclass(frozen=True)
class Fire:
    """Which machines burn, one after the other, and when: behind a step (-1: the start), `far` of the way on."""

    machines: tuple[int, ...]
    step: int
    far: float

    def __str__(self) -> str:
        return f"burn {' then '.join(map(str, self.machines))} at {self.step} + {self.far:.2f}"


def fire_of(seed: int) -> Fire:
    """Every machine comes first in three seeds, a second one in one of four; the rest is drawn."""
    draw = random.Random(f"burning {seed}")
    first = seed % NUM_MACHINES
    left = [machine for machine in range(NUM_MACHINES) if machine != first]
    # The two that are left survive the loss of one only if that is not the meeting point, which is the first of them.
    machines = (first, left[1]) if seed % 4 == 3 else (first,)
    return Fire(machines, draw.choice([-1, *range(0, NUM_STEPS - 1, 3), NUM_STEPS - 1]), draw.random())


def faults_of(seed: int) -> str:
    """The text of `--chaos` for one run: copies are killed, cut off and reached badly, and a server or worker dies."""
    draw = random.Random(f"copies {seed}")
    strikes = ["kill copy", f"stop copy {draw.randint(300, 2500)}ms", *draw.sample(["kill server", "kill worker"], 1)]
    at = [f"{one} at {draw.randint(500, 4000)}ms" for one in [*strikes, draw.choice(strikes)]]
    return "; ".join([*at, f"drop {draw.randint(1, 4)}% rpc; repeat 2% rpc; delay 3% {draw.randint(10, 300)}ms"])


def run_struck(mode: str, seed: int, folder: Path, expected: str, *, keeps: bool = False) -> Outcome:
    """Run the job with faults of its copies, on all machines, and compare."""
    chaos = faults_of(seed)
    outcome = Outcome(f"copies-{mode}", seed, chaos, 0.0)
    began = time.monotonic()
    with ExitStack() as stack:
        machines = _start(stack, folder, mode, "--chaos", chaos, "--seed", seed)
        try:
            results = machines.finish()
        except AssertionError as error:  # it did not end
            outcome.problems.append(str(error).partition("\n")[0])
            outcome.said = str(error)
            return outcome
    outcome.seconds = time.monotonic() - began
    _judge(outcome, machines, results, mode, expected)
    for folder_of_one in machines.folders:
        found = json.loads((folder_of_one / "log" / "chaos.json").read_text())
        outcome.counts.update(found["counts"])
        broken = [one for one in found["invariants"] if one["holds"] is False]
        outcome.problems += [f"{one['name']}: {one['text']}" for one in broken]
    if not outcome.problems and not keeps:
        shutil.rmtree(folder)
    return outcome


def undisturbed(folder: Path) -> str:
    """What a model comes to without fire."""
    with ExitStack() as stack:
        machines = _start(stack, folder, "sync")
        results = machines.finish()
    assert [result.code for result in results] == [0] * NUM_MACHINES, results
    (found,) = {model for model, _, _ in _ends(machines)}
    shutil.rmtree(folder)
    return found


def run(mode: str, seed: int, folder: Path, expected: str, *, keeps: bool = False) -> Outcome:
    """Run the job, burn what the seed says, and compare."""
    fire = fire_of(seed)
    outcome = Outcome(f"burn-{mode}", seed, str(fire), 0.0)
    began = time.monotonic()
    with ExitStack() as stack:
        machines = _start(stack, folder, mode)
        try:
            burned_at = _burn(machines, fire, outcome)
            results = machines.finish()
        except AssertionError as error:  # it did not end
            outcome.problems.append(str(error).partition("\n")[0])
            outcome.said = str(error)
            return outcome
    outcome.seconds = time.monotonic() - began
    _judge(outcome, machines, results, mode, expected)
    for at in burned_at:
        if (away_s := _away_s(machines, at)) is not None:
            outcome.recoveries.append({"process": "server", "back_s": None, "step_s": away_s})
    if not outcome.problems and not keeps:
        shutil.rmtree(folder)
    return outcome


def _judge(outcome: Outcome, machines: Machines, results: list[Result], mode: str, expected: str) -> None:
    for machine, result in zip(machines.left, results, strict=True):
        if result.code:
            outcome.problems.append(f"machine {machine} ended with {result.code}")
            outcome.said += result.err
    ends = _ends(machines)
    if not ends and not outcome.problems:
        outcome.problems.append("no worker has told its end")
    for model, counted, of in ends:
        if mode == "sync" and model != expected:
            outcome.problems.append(f"the model is {model}, undisturbed {expected}")
        if mode == "async" and counted != of:
            outcome.problems.append(f"{counted} samples counted of {of}")


def _start(stack: ExitStack, folder: Path, mode: str, *more: object) -> Machines:
    shutil.rmtree(folder, ignore_errors=True)
    network = stack.enter_context(switched_network(NUM_MACHINES))
    arguments = ["--standby", "sync", "--server_num", 1, "--worker_num", 1, *more, SCRIPT, mode, NUM_STEPS, PAUSE_MS]
    return Machines(stack, network, folder, arguments, ENVIRON, warm=True)


def _burn(machines: Machines, fire: Fire, outcome: Outcome) -> list[float]:
    """When each has burned."""
    burned_at: list[float] = []
    if fire.step < 0:
        _wait(lambda: _num_logs(machines) == NUM_MACHINES, machines)
        time.sleep(2 * fire.far)
    else:
        _wait(lambda: _step(machines) >= fire.step, machines)
        time.sleep(fire.far * 2 * PAUSE_MS / 1000)
    for machine in fire.machines:
        if burned_at and not _wait(lambda: _are_whole(machines), machines):
            break
        if _has_ended(machines):
            outcome.counts["came too late"] += 1
            break
        burned_at.append(time.time())
        machines.burn(machine)
        outcome.counts["burn"] += 1
    return burned_at


def _are_whole(machines: Machines) -> bool:
    """Whether every server has a copy again on all that are left, and none is where the burned ones were."""
    hosts = [machines.network.hosts[machine].address for machine in machines.left]
    terms = [machines.terms(machine).newest() for machine in machines.left]
    return all(
        term is not None and {one.rpartition(":")[0] for one in (*term.servers, *term.copies)} <= set(hosts)
        for term in terms
    )


def _wait(condition: Callable[[], bool], machines: Machines) -> bool:
    """Poll until it holds; False if a machine ends before."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        if _has_ended(machines):
            return False
        assert time.monotonic() < deadline, f"the job did not come that far within {LIMIT_S} s"
    return True


def _has_ended(machines: Machines) -> bool:
    return any(machines.jobs[machine].ends_within(POLL_S) for machine in machines.left)


def _logs(machines: Machines, of: list[int] | None = None) -> list[str]:
    folders = machines.folders if of is None else [machines.folders[machine] for machine in of]
    return [path.read_text() for folder in folders for path in folder.glob("log/workerlog.?")]


def _num_logs(machines: Machines) -> int:
    return sum(1 for folder in machines.folders for _ in folder.glob("log/workerlog.?"))


def _step(machines: Machines) -> int:
    return max((int(step) for log in _logs(machines) for step, _ in STEP.findall(log)), default=-1)


def _ends(machines: Machines) -> list[tuple[str, int, int]]:
    """What the workers of the machines that are left have come to."""
    found = [END.findall(log) for log in _logs(machines, machines.left)]
    return [(model, int(counted), int(of)) for one in found for model, counted, of in one]


def _away_s(machines: Machines, at: float) -> float | None:
    """From a fire to the first step after the gap that it made; None where it made none."""
    times = sorted(float(moment) for log in _logs(machines) for _, moment in STEP.findall(log))
    near = [(later - earlier, later) for earlier, later in pairwise(times) if at - 1 < earlier < at + NEAR_S]
    if not near:
        return None
    gap_s, end = max(near)
    return end - at if gap_s > 2 * PAUSE_MS / 1000 and end > at else None
