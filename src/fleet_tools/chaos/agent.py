"""Kills and stops processes of this machine as `--chaos` says: which ones, a seeded generator chooses."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fleet import env
from fleet.launch.planning.plan import LaunchPlan, ProcessPlan
from fleet.launch.processes.child import Child
from fleet_tools.chaos.spec import Chaos, Strike

log = logging.getLogger("fleetrun")

LOOK_S = 0.02
"""How soon a process that was started again is seen."""


@dataclass
class Blow:
    """One thing that was done to one process; moments are in seconds since 1970."""

    kind: str
    """`kill` or `stop`."""
    process: str
    at: float
    pid: int
    for_s: float = 0.0
    note: str = ""
    """Why nothing was done, if nothing was."""

    @property
    def is_done(self) -> bool:
        """Whether the process was there to be struck."""
        return not self.note


@dataclass(frozen=True)
class Life:
    """A process from its start on."""

    process: str
    pid: int
    started_at: float


@dataclass
class _Plan:
    """When a strike comes next."""

    strike: Strike
    rng: random.Random
    number: int = 1

    @property
    def due_s(self) -> float:
        """Since the job's start."""
        moment = self.strike.when.moment(self.number)
        return math.inf if moment is None else moment


class Agent:
    """One for each attempt at a job; `began_at` is the job's own start, `before` the agent of the attempt before."""

    def __init__(self, chaos: Chaos, seed: int, plan: LaunchPlan, began_at: float, before: Agent | None = None) -> None:
        self.chaos = chaos
        self.seed = seed
        self._seed = _seed_here(seed, plan)
        self._plan = plan
        self.began_at = began_at
        self.blows: list[Blow] = [] if before is None else before.blows
        self.lives: list[Life] = [] if before is None else before.lives
        self._children: Callable[[], Sequence[Child]] = lambda: ()
        self._excuse: Callable[[int], None] = lambda _: None
        self._plans: list[_Plan] = [
            _Plan(one, random.Random(f"{self._seed}, strike {number}")) for number, one in enumerate(chaos.strikes)
        ]
        if before is not None:
            self._plans = before._plans
        self._stopped: dict[Child, float] = {}
        """Until when, in seconds since the job's start."""
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, children: Callable[[], Sequence[Child]], excuse: Callable[[int], None]) -> None:
        """Begin; `children` are those of the moment when it is called, `excuse` is told who is about to be killed."""
        self._children, self._excuse = children, excuse
        self._thread = threading.Thread(target=self._run, name="chaos", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Strike nobody any more, and let go on whoever is stopped; idempotent."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self._see_lives()

    def _run(self) -> None:
        while not self._end.wait(LOOK_S):
            self._see_lives()
            now_s = time.time() - self.began_at
            for child in [child for child, until_s in self._stopped.items() if until_s <= now_s]:
                del self._stopped[child]
                if child.is_running:  # or its id may be somebody else's
                    _signal(child, signal.SIGCONT)
            for one in sorted((one for one in self._plans if one.due_s <= now_s), key=lambda one: one.due_s):
                children = self._strike(one.strike, one.rng)
                one.number += 1
                if one.strike.kind == "stop":
                    self._stopped |= dict.fromkeys(children, time.time() - self.began_at + one.strike.for_s)
        for child in self._stopped:
            if child.is_running:
                _signal(child, signal.SIGCONT)

    def _strike(self, strike: Strike, rng: random.Random) -> list[Child]:
        """Strike one process of each role at the same moment; returns those that were there."""
        chosen: list[Child] = []
        for role in strike.roles:
            names = [one.name for one in self._plan.processes if one.role == role]
            if not names:
                continue
            name = rng.choice(names)  # also where it is not there: what is chosen next does not depend on it
            child = next((one for one in self._children() if one.plan.name == name), None)
            if child is not None and child.is_running:
                chosen.append(child)
                continue
            why = "had ended" if child is None or child.status == 0 else "was being started again"
            self.blows.append(Blow(strike.kind, name, time.time(), 0, strike.for_s, why))
        for child in chosen:
            self.blows.append(Blow(strike.kind, child.plan.name, time.time(), child.pid, strike.for_s))
            if strike.kind == "kill":
                self._excuse(child.pid)
            _signal(child, signal.SIGKILL if strike.kind == "kill" else signal.SIGSTOP)
        for child in chosen:
            pause = f" for {strike.for_s:g} s" if strike.for_s else ""
            log.warning("chaos: %s %s (pid %d)%s", strike.kind, child.plan.name, child.pid, pause)
        return chosen

    def _see_lives(self) -> None:
        known = {life.pid for life in self.lives}
        for child in self._children():
            if child.pid not in known:
                self.lives.append(Life(child.plan.name, child.pid, child.started_at))


def with_chaos(plan: LaunchPlan, chaos: Chaos, seed: int, began_at: float) -> LaunchPlan:
    """The plan with what each process needs to do its own part of it; one of the servers is chosen for torn writes."""
    servers = [one.name for one in plan.processes if one.role == "server"]
    torn = random.Random(f"{_seed_here(seed, plan)}, torn").choice(servers) if servers else ""

    def equipped(process: ProcessPlan) -> ProcessPlan:
        is_spared = process.role in ("server", "copy") and process.name != torn
        own = chaos.without_torn_writes() if is_spared else chaos
        variables = {
            env.FLEET_CHAOS.name: str(own),
            env.FLEET_CHAOS_SEED.name: f"{seed}, {process.name}",
            env.FLEET_CHAOS_BEGAN.name: repr(began_at),
        }
        return replace(process, variables=process.variables | variables)

    return replace(plan, processes=tuple(map(equipped, plan.processes)))


def _seed_here(seed: int, plan: LaunchPlan) -> str:
    """Each machine makes choices of its own."""
    return f"{seed}, machine {plan.layout.node_index}"


def _signal(child: Child, number: int) -> None:
    """Strike the process alone when it dies, as the kernel does when memory is short; with all its own when it stops.

    Not by `Child.signal`: nobody told it to stop.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if number == signal.SIGKILL:
            os.kill(child.pid, number)
        else:
            os.killpg(child.pid, number)
