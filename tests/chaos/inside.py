"""Kills inside changes of several servers: a job that makes many (`changes`), and kill -9 while one is under way.

A worker writes a change into its outbox before the first server gets it, and takes it out behind the last: while that
file is there, processes die, as the seed says: the worker, a server, or one right after the other. In half of the blows
one server is stopped first, so that the other has made the change when they die. In a third of the runs the number of
servers changes, and somebody dies inside that, too. Calls come late, are lost and repeated; in every run a disk has no
room for a while: that of a journal, or from a change on that of the rows of a server, or all disks. What is saved at
the end must be that of a job that nothing happened to.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos import changes
from chaos.new_files import NewFiles
from chaos.runs import ENVIRON, Outcome
from chaos.state import digest_of_rows
from support.jobs import RunningJob

SCRIPT = Path(changes.__file__)
LIMIT_S, POLL_S, LOOK_S = 180.0, 0.02, 0.2
FOLDERS = ("worker-0", "worker-1", "layout")
VICTIMS = (("worker",), ("server",), ("worker", "server"), ("server", "worker"), ("server", "server"))
CASES = tuple((mode, moves) for mode in ("sync", "async") for moves in (False, True))
JOURNAL, ROWS, ALL = "journal", "rows", "all"
NUM_CHANGES = 9
"""How often a change is written down in a job that nothing happens to."""
LIMITS = (4 << 10, 64 << 10, 512 << 10)
"""How many bytes a file of a server may have while all of its disks are full."""

Case = tuple[str, bool]
Expected = dict[Case, dict[str, str]]


@dataclass(frozen=True)
class Plan:
    """What a seed does."""

    case: Case
    faults: str
    """The text of `--chaos`."""
    disk: str
    full_from: int
    """The change with which a disk gets full; that of the journal does by the text of `--chaos`.

    It is not the load or the last but one: files that are linked to must be there, and a save that finds no room fails.
    """
    full_s: float
    limit: int
    server: int
    """Whose disk of rows, and who is stopped while a change is made."""
    victims: tuple[tuple[str, int], ...]
    blows: tuple[int, ...]
    """The changes, counted from 0, inside which they die; where one is over too soon it is the next."""
    is_held: tuple[bool, ...]
    pauses: tuple[float, ...]
    move_after_s: float
    """How long somebody begins to die after a change of the number of servers was asked for."""

    def __str__(self) -> str:
        full = f"; {self.disk} full for {self.full_s:.1f} s from change {self.full_from}"
        moved = f", and {self.move_after_s:.2f} s into a move" if self.case[1] else ""
        return f"{self.faults}{'' if self.disk == JOURNAL else full}; kill {self.victims} in {self.blows}{moved}"


def plan_of(seed: int) -> Plan:
    """Every kind of job with every kind of full disk comes once in 18 seeds, and with all victims in 90."""
    draw = random.Random(f"inside {seed}")
    case = ("sync", "async")[seed % 2], seed // 2 % 3 == 0
    disk = (JOURNAL, ROWS, ALL)[seed // 6 % 3]
    faults = f"delay {draw.randint(10, 30)}% {draw.randint(5, 40)}ms; drop 2% rpc; repeat 3% rpc"
    if disk == JOURNAL:
        # Not at the very start: a server that has nothing yet does not wait for room, and says so.
        faults += f"; disk-full at {draw.randint(2000, 3500)}ms for {draw.randint(300, 900)}ms"
    return Plan(
        case,
        faults,
        disk,
        draw.choice((0, 1, 2, 3, 5, 6)),
        draw.uniform(0.3, 1.2),
        draw.choice(LIMITS),
        draw.randrange(2),
        tuple((role, draw.randrange(2)) for role in VICTIMS[seed % len(VICTIMS)]),
        tuple(sorted(draw.sample(range(NUM_CHANGES - 2), 2))),
        (draw.random() < 0.5, draw.random() < 0.5),
        (draw.random() * 0.004, draw.random() * 0.004),
        draw.random() * 0.8,
    )


def undisturbed(folder: Path, cases: Sequence[Case] = CASES, times: int = 2) -> Expected:
    """For each kind of job, what is saved by those that nothing happens to: all the same."""
    found = {}
    for case in cases:
        runs = []
        for _ in range(times):
            with _start(folder, case) as job:
                result = job.finish(LIMIT_S)
            assert result.code == 0, result.err
            runs.append(_found(folder, case))
        assert all(one == runs[0] for one in runs), f"undisturbed runs of {case} differ: {runs}"
        found[case] = runs[0]
    shutil.rmtree(folder)
    return found


def run(seed: int, folder: Path, expected: Expected, *, keeps: bool = False) -> Outcome:
    """Run the job, kill inside changes as the seed says, and compare."""
    plan = plan_of(seed)
    outcome = Outcome("inside", seed, str(plan), 0.0)
    began = time.monotonic()
    with _start(folder, plan.case, "--chaos", plan.faults, "--seed", seed) as job:
        try:
            with _Striker(job, plan, outcome) as striker:
                striker.strike()
            result = job.finish(LIMIT_S)
        except AssertionError as error:  # it did not end
            outcome.problems.append(str(error).partition("\n")[0])
            outcome.said = str(error)
        else:
            outcome.said = result.err
            if result.code != 0:
                outcome.problems.append(f"exit code {result.code}")
            elif (found := _found(folder, plan.case)) != expected[plan.case]:
                outcome.problems.append(f"what is saved is not that of the undisturbed run: {found}")
            _judge(outcome, folder)
    outcome.seconds = time.monotonic() - began
    if not outcome.problems and not keeps:
        shutil.rmtree(folder)
    return outcome


def _found(folder: Path, case: Case) -> dict[str, str]:
    """What was saved; in async mode without the times of rows, which depend on the order of pushes."""
    return digest_of_rows(folder / "saved", is_exact=case[0] == "sync")


def _judge(outcome: Outcome, folder: Path) -> None:
    report = folder / "log" / "chaos.json"
    if report.exists():
        outcome.counts.update(json.loads(report.read_text())["counts"])
    log = folder / "log" / "fleetrun.log"
    outcome.counts["moves"] = (log.read_text() if log.exists() else outcome.said).count("from now on (layout")
    if not any(name.startswith("inside") for name in outcome.counts):
        outcome.counts["came too late"] = 1


def _start(folder: Path, case: Case, *more: object) -> RunningJob:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    job = [SCRIPT, "--mode", case[0], "--save", folder / "saved", *(["--reshard"] if case[1] else [])]
    return RunningJob(
        ["--server_num", 2, "--worker_num", 2, "--durable", "kept", *more, *job], folder, ENVIRON, warm=True
    )


class _Striker:
    """Watches the outboxes of a job, and strikes while a change is in one."""

    def __init__(self, job: RunningJob, plan: Plan, outcome: Outcome) -> None:
        self._job, self._plan, self._outcome = job, plan, outcome
        self._kept = job.cwd / "kept"
        self._blows = list(plan.blows)
        self._files = NewFiles()
        self._pids: dict[tuple[str, int], list[int]] = {}
        self._looked_at = 0.0
        self._full: list[threading.Thread] = []

    def __enter__(self) -> _Striker:
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._full:
            thread.join()
        self._files.close()

    def strike(self) -> None:
        """Until nothing is left to be done, or the job is over."""
        seen, is_full, has_moved = -1, self._plan.disk == JOURNAL, not self._plan.case[1]
        deadline = time.monotonic() + LIMIT_S
        while (self._blows or not is_full or not has_moved) and time.monotonic() < deadline:
            if self._job.ends_within(0):
                return
            there = [path for name in FOLDERS for path in self._files.watch(self._kept / name)]
            for path in there or self._files.wait(POLL_S):
                if path.name == "change":
                    seen += 1
                    if not is_full and seen >= self._plan.full_from:
                        is_full = True
                        self._fill()
                    if self._blows and seen >= self._blows[0]:
                        self._hit(path)
                elif not has_moved and path.name.startswith("asked-"):
                    has_moved = True
                    self._hit_move(path)
            if time.monotonic() > self._looked_at + LOOK_S:
                self._look()

    def _look(self) -> None:
        """Who there is: finding that out takes too long once a change has begun."""
        own = {
            int(pid) for path in Path("/proc", str(self._job.pid), "task").glob("*/children") for pid in _words(path)
        }
        self._pids.clear()
        for path in sorted((self._job.cwd / "log" / "observe").glob("*log.*.*.json")):
            name, index, *_, pid, _ = path.name.split(".")  # those of another number of servers have its layout, too
            if int(pid) in own:
                self._pids.setdefault((name.removesuffix("log"), int(index)), []).append(int(pid))
        self._looked_at = time.monotonic()

    def _hit(self, change: Path) -> None:
        """Have processes die while a change is there; if it is over, it will be the next one."""
        number, held = len(self._plan.blows) - len(self._blows), 0
        if self._plan.is_held[number] or self._outcome.counts["over too soon"]:
            held = next(iter(self._pids.get(("server", self._plan.server), [])), 0)
            _signal(held, signal.SIGSTOP)
            time.sleep(0.02)
        time.sleep(self._plan.pauses[number])
        if is_inside := change.exists():
            self._blows.pop(0)
            self._kill(int(change.parent.name.removeprefix("worker-")), "inside")
        _signal(held, signal.SIGCONT)
        if not is_inside:
            self._outcome.counts["over too soon"] += 1
        self._look()

    def _hit_move(self, asked: Path) -> None:
        time.sleep(self._plan.move_after_s)
        is_over = asked.with_name(asked.name.replace("asked", "decided")).exists()
        self._look()
        self._kill(0, "behind a move" if is_over else "inside a move")
        self._look()

    def _kill(self, worker: int, where: str) -> None:
        for role, index in self._plan.victims:
            pids = self._pids.get((role, worker if role == "worker" else index), [])
            if pids and _signal(pids[len(pids) * index // 2], signal.SIGKILL):
                self._outcome.counts[f"{where}: kill {role}"] += 1

    def _fill(self) -> None:
        """Let a disk be full for a while."""
        servers = [pid for (role, _), pids in self._pids.items() if role == "server" for pid in pids]
        if self._plan.disk == ROWS:
            work = [_away(self._kept / "tables", self._plan.server)]
        else:
            work = [_limited(pid, self._plan.limit) for pid in servers]
        thread = threading.Thread(target=_for_a_while, args=(work, self._plan.full_s))
        thread.start()
        self._full.append(thread)
        self._outcome.counts[f"{self._plan.disk} full"] += 1


def _for_a_while(work: Sequence[contextlib.AbstractContextManager[None]], seconds: float) -> None:
    with contextlib.ExitStack() as stack:
        for one in work:
            stack.enter_context(one)
        time.sleep(seconds)


@contextlib.contextmanager
def _limited(pid: int, num_bytes: int) -> Iterator[None]:
    """Nothing of a process grows beyond so many bytes: its writes fail, as on a full disk."""
    most = resource.RLIM_INFINITY
    with contextlib.suppress(ProcessLookupError):
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (num_bytes, most))
    yield
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))


@contextlib.contextmanager
def _away(tables: Path, server: int) -> Iterator[None]:
    """No file of rows can be made by a server: the folder is not there."""
    found = [folder for folder in tables.glob(f"server-{server}-*/table-*") if folder.is_dir()]
    moved = []
    for folder in found:
        with contextlib.suppress(FileNotFoundError):
            moved.append((folder, folder.rename(folder.with_name(f"away-{folder.name}"))))
    yield
    for folder, away in moved:
        with contextlib.suppress(FileNotFoundError):  # its server is dead, and all that it had is removed
            away.rename(folder)


def _signal(pid: int, number: int) -> bool:
    """Whether there was somebody to send it to."""
    with contextlib.suppress(ProcessLookupError):
        if pid:
            os.kill(pid, number)
            return True
    return False


def _words(path: Path) -> list[str]:
    with contextlib.suppress(OSError):  # a thread that has ended
        return path.read_text().split()
    return []
