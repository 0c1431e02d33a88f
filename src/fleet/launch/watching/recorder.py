"""Writes down, once a second, what the launcher of a machine knows of its processes; see `fleet.jobfiles.figures`.

It only looks: nothing that it does, or cannot do for want of room on a disk, changes what becomes of the job.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from fleet import env
from fleet.job.comebacks import Comeback
from fleet.job.endings import how_it_ended
from fleet.jobfiles import figures as files
from fleet.jobfiles import whole
from fleet.launch.arguments.options import Options
from fleet.launch.planning.plan import LaunchPlan
from fleet.launch.processes.child import Child
from fleet.observe.metrics.registry import Sample, kept, samples_of

EVERY_S = 1.0
LOOK_S = 0.2
"""How soon a process that has ended is written down."""
_log = logging.getLogger(__name__)
Onlooker = Callable[[Sequence[Child]], None]
NUM_FINE = 600
"""How many lines of the history are a second apart; later ones lie further apart, the longer the job runs."""


class Recorder:
    """Writes down one machine's processes for its launcher, in all rounds of a job."""

    def __init__(self, options: Options, job_id: str) -> None:
        self._options = options
        self._folder = Path(options.log_dir).absolute() / files.FOLDER
        self._job_id = job_id
        self._began_at = time.time()
        self._node = 0
        self._machine: dict[str, Any] = {}
        self._children: Callable[[], Sequence[Child]] = list
        self._returns: Callable[[], Sequence[Comeback]] = list
        self._told: set[int] = set()
        """Returns of processes that were told, by their id()."""
        self._processes: dict[int, psutil.Process] = {}
        self._next_line_at = 0.0
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self._handler = _EventHandler(self._note)
        self._onlookers: list[Onlooker] = []

    def prepare(self, plan: LaunchPlan, restart: int, *, is_continued: bool) -> None:
        """Before processes start: forget what an earlier job has left, and say what this one is."""
        layout = plan.layout
        self._node = layout.node_index
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
        if not is_continued:
            self._forget(plan)
        self._machine = {
            "form": files.FORM,
            "job": self._job_id,
            "machine": layout.node_index,
            "num_machines": layout.num_nodes,
            "host": layout.host,
            "script": self._options.script or "--selfcheck",
            "kind": "servers" if layout.servers else "collective",
            "num_servers": len(layout.servers),
            "num_workers": len(layout.workers),
            "began": self._began_at,
            "round": restart,
            "ended": None,
            "code": None,
        }
        self._put([])
        logging.getLogger("fleetrun").addHandler(self._handler)

    def follow(self, children: Callable[[], Sequence[Child]], returns: Callable[[], Sequence[Comeback]]) -> None:
        """From now on write down how these are; called once all of them have started, for it starts a thread."""
        self._children, self._returns = children, returns
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="fleet-recorder", daemon=True)
            self._thread.start()

    def add(self, onlooker: Onlooker) -> None:
        """Call this too, each time that something was written, with the processes; what it raises is lost."""
        self._onlookers.append(onlooker)

    def end(self, code: int) -> None:
        """The job is over; a second time changes nothing."""
        if self.is_over:
            return
        self._machine |= {"ended": time.time(), "code": code}
        self._is_over.set()
        if self._thread is not None:
            self._thread.join(2 * EVERY_S)  # a disk that does not answer is not waited for
        logging.getLogger("fleetrun").removeHandler(self._handler)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to write any more, or never was."""
        return not self._machine or self._machine["ended"] is not None

    def _forget(self, plan: LaunchPlan) -> None:
        """Remove what is ours, and on machine 0 also what belongs to machines and processes that the job has not."""
        old = [path for path in self._folder.glob("*") if self._is_stale(path.name, plan)]
        for path in old:
            with contextlib.suppress(OSError):
                path.unlink()

    def _is_stale(self, name: str, plan: LaunchPlan) -> bool:
        parts = name.removeprefix(".").split(".")
        if len(parts) < 3 or not parts[1].isdigit():
            return False
        number = int(parts[1])
        numbers = {
            "fleetrun": ({plan.layout.node_index}, plan.layout.num_nodes),
            "workerlog": (set(plan.layout.local_workers), len(plan.layout.workers)),
            "serverlog": (set(plan.layout.local_servers), len(plan.layout.servers)),
        }
        own, total = numbers.get(parts[0], (set(), 0))
        is_surplus = plan.layout.node_index == 0 and parts[0] in numbers and number >= total
        return number in own or is_surplus

    def _run(self) -> None:
        last: object = None
        written_at = 0.0
        while True:
            is_last = self._is_over.wait(LOOK_S)
            children = list(self._children())
            look = [(child.pid, child.status) for child in children]
            if is_last or look != last or time.monotonic() - written_at >= EVERY_S:
                last, written_at = look, time.monotonic()
                try:
                    self._write(children)
                except Exception:  # whatever it is, the next look may be better
                    _log.debug("the state of the job could not be written", exc_info=True)
            if is_last:
                return

    def _write(self, children: Sequence[Child]) -> None:
        self._tell_returns()
        processes = [self._about(child) for child in children]
        self._put(processes)
        now = time.time()
        if now >= self._next_line_at or self._is_over.is_set():
            self._next_line_at = now + max(EVERY_S, (now - self._began_at) / NUM_FINE) - LOOK_S / 2
            values = {
                child.plan.name: self._kept(child, about) for child, about in zip(children, processes, strict=True)
            }
            files.append(self._path("history.jsonl"), {"t": round(now, 2), "p": values})
        for onlooker in self._onlookers:
            try:
                onlooker(children)
            except Exception:  # the next one has nothing to do with it
                _log.debug("%r could not look", onlooker, exc_info=True)

    def _put(self, processes: Sequence[dict[str, Any]]) -> None:
        whole.replace(self._path("json"), {**self._machine, "time": time.time(), "processes": processes})

    def _kept(self, child: Child, about: dict[str, Any]) -> dict[str, float]:
        figures = whole.read(files.figures_file(self._folder, child.plan.log_path.name, child.pid))
        samples = [] if figures is None else samples_of(figures)
        if about["rss"] is not None:
            samples.append(Sample("fleet_process_resident_memory_bytes", about["rss"]))
            samples.append(Sample("fleet_process_cpu_seconds_total", about["cpu"]))
        found = {name: float(f"{value:.6g}") if value % 1 else value for name, value in kept(samples).items()}
        return found if figures is None else {**found, "t": float(figures.get("time", 0.0))}

    def _about(self, child: Child) -> dict[str, Any]:
        plan = child.plan
        waits = child.waits() if child.is_running else []
        rss, cpu = self._usage(child)
        return {
            "name": plan.name,
            "role": plan.role,
            "index": plan.index,
            "layout": plan.layout,
            "endpoint": plan.endpoint,
            "device": plan.device,
            "log": plan.log_path.name,
            "pid": child.pid,
            "life": child.life,
            "state": _state(child, bool(waits)),
            "how": "" if child.status is None else how_it_ended(child.status),
            "started": child.started_at,
            "exited": child.exited_at,
            "waits": [{"what": wait.what, "workers": wait.workers, "since": wait.since} for wait in waits],
            "rss": rss,
            "cpu": cpu,
        }

    def _usage(self, child: Child) -> tuple[int | None, float | None]:
        """Memory and CPU time of a process that runs."""
        if not child.is_running:
            self._processes.pop(child.pid, None)
            return None, None
        try:
            process = self._processes.setdefault(child.pid, psutil.Process(child.pid))
            with process.oneshot():
                times = process.cpu_times()
                return process.memory_info().rss, round(times.user + times.system, 3)
        except (psutil.Error, OSError):
            return None, None

    def _tell_returns(self) -> None:
        for one in self._returns():
            if one.back_at is not None and id(one) not in self._told:
                self._told.add(id(one))
                self._note(one.back_at, "back", f"{one.name} is back after {one.took_s:.1f} s")

    def _note(self, when: float, event: str, text: str) -> None:
        files.append(self._path("events.jsonl"), {"time": when, "event": event, "text": text, "who": "fleetrun"})

    def _path(self, ending: str) -> Path:
        return self._folder / f"fleetrun.{self._node}.{ending}"


def _state(child: Child, is_waiting: bool) -> str:
    if child.is_running:
        return "waiting" if is_waiting else "running"
    if child.status == 0:
        return "ended"
    return "stopped" if child.was_told_to_stop and not child.has_failed else "dead"


class _EventHandler(logging.Handler):
    """Keeps what the launcher says, too."""

    def __init__(self, note: Callable[[float, str, str], None]) -> None:
        super().__init__(logging.INFO)
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        event = {logging.INFO: "news", logging.WARNING: "warning"}.get(record.levelno, "failure")
        self._note(record.created, event, record.getMessage().partition("\n")[0])


def make_recorder(options: Options, job_id: str) -> Recorder | None:
    """What writes a job down; None where its figures are not wanted."""
    return None if env.FLEET_METRICS.get() == "0" else Recorder(options, job_id)
