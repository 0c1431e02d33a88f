"""Workers that come and go while a durable job runs: `fleetrun --worker_num A:B`, `fleetrun scale`.

Somebody wants another number of them, in a file (`fleet.jobfiles.scaling`). Workers are numbered from 0, and it is
those with the lowest numbers that there are: new ones get the next numbers, and the highest leave first. A worker that
is to leave is sent SIGTERM once it has joined its servers. It finishes its step, hands back what it has not read, and
ends; then what it kept is removed, so that another may have its number. One that is killed before it has left is
started again in its place, like any other, and told again.

On several machines the launcher that finds the wish tells it to all, itself included (`Scaled`); each has its share of
the workers, with numbers of its own, and says when they are there. The wish is fulfilled when all have said so.
"""

import logging
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from fleet.errors import FleetError
from fleet.job.lives import Lives
from fleet.jobfiles.kept import DRAINED, FINISHED
from fleet.jobfiles.scaling import ScaleLimits, ScaleNotes, ScaleWish
from fleet.launch.arguments.options import Nodes, Options
from fleet.launch.durable import folder as durable
from fleet.launch.durable.staff import Staff
from fleet.launch.meet.messages import Scaled
from fleet.launch.planning.layout import JobLayout
from fleet.launch.planning.make import worker_variables
from fleet.launch.planning.plan import LaunchPlan
from fleet.launch.processes.child import Child
from fleet.launch.processes.logs import ReadyProcess, open_log

AGAIN_S = 5.0
"""How long to wait when a worker could not be started, before the next try."""

log = logging.getLogger("fleetrun")


class Scaling:
    """How many workers there are, and are to be."""

    def __init__(
        self, options: Options, plan: LaunchPlan, limits: Nodes, holds: ExitStack, tell: Callable[[Scaled], None]
    ) -> None:
        """`plan` has the first workers; `holds` keeps logs and locks of all, `tell` tells the launchers of the job."""
        assert options.durable is not None
        self._options, self._plan, self._limits, self._holds = options, plan, limits, holds
        self._tell_all = tell
        self._folder = Path(options.durable)
        self._notes = ScaleNotes(self._folder)
        wish = self._notes.wanted()
        self._wanted = _number_of(wish, limits, plan.layout)
        self._number = 0 if wish is None or plan.layout.num_nodes > 1 else wish.number
        """The number of the wish that was told last; machines may have missed what was wanted in an earlier run."""
        self._present: Scaled | None = None
        """The wish that is being fulfilled here; None: none is."""
        self._answers: dict[int, str] = {}
        """What machines have made of the wish with that number."""
        for path in self._folder.glob(f"worker-*/{DRAINED}"):  # of the fleetrun before, which was killed just then
            shutil.rmtree(path.parent, ignore_errors=True)
        self._ready: dict[int, ReadyProcess] = {}
        """What workers that have left were started with: their logs are open, and their folders locked."""
        self._again_at = 0.0
        self._told: set[Child] = set()
        """Workers that were told to leave."""
        self._killed: set[int] = set()
        """Numbers of workers that somebody told to leave before they knew what SIGTERM means: it has killed them."""

    def look(self, crew: Staff, _: Lives[Child]) -> None:
        """Start workers that are missing; tell those to leave that are too many."""
        wish = self._notes.wanted()
        if wish is not None and wish.number != self._number:
            self._number, self._answers = wish.number, {}
            self._tell_all(Scaled(wish.workers, self._plan.layout.node_index, wish.number))
        workers = {child.plan.index: child for child in crew.children if child.plan.role == "worker"}
        if any(child.status == 0 and not self._is_drained(child) for child in workers.values()):
            # The data is at its end: whoever comes now has nothing to do.
            self._tell("the job is about to end")
            return
        missing = [index for index in self._wanted if index not in workers]
        if missing and (time.monotonic() < self._again_at or not self._start(missing, crew)):
            return
        surplus = [child for index, child in workers.items() if index not in self._wanted]
        for child in (*surplus, *(child for index, child in workers.items() if index in self._killed)):
            if child.is_running and child not in self._told and child.back_at is not None:
                self._told.add(child)
                self._killed.discard(child.plan.index)
                child.tell(signal.SIGTERM)
        here = [child for index, child in workers.items() if index in self._wanted and child.back_at is not None]
        if not surplus and len(here) == len(self._wanted):
            self._tell()

    def hear(self, told: Scaled) -> None:
        """Take note of a wish, or of what a machine has made of one."""
        layout = self._plan.layout
        if told.by is None:
            wanted = ScaleWish(told.number, told.workers)
            before, self._wanted = self._wanted, _number_of(wanted, self._limits, layout)
            self._present = told
            if self._wanted != before:
                where = " here" if layout.num_nodes > 1 else ""
                log.warning("workers%s: %d from now on, instead of %d", where, len(self._wanted), len(before))
            if (own := self._notes.wanted()) is None or own.workers != told.workers:
                self._number = self._notes.wish(told.workers)  # for the next run
        elif (told.wisher, told.number) == (layout.node_index, self._number):
            self._answers[told.by] = told.failure
            if len(self._answers) == layout.num_nodes:
                self._notes.done(self._number, next(filter(None, self._answers.values()), ""))

    def takes(self, child: Child, crew: Staff) -> bool:
        """Whether a process that has ended is a worker that has left before its data was at an end."""
        if not self._is_drained(child):
            if child.plan.role == "worker" and child.status == -signal.SIGTERM and child.back_at is None:
                self._killed.add(child.plan.index)
            return False
        self._killed.discard(child.plan.index)
        crew.release(child)
        self._ready[child.plan.index] = crew.drop(child)
        self._told.discard(child)
        shutil.rmtree(self._folder / child.plan.folder, ignore_errors=True)
        log.warning("%s has left, and handed back what it had not read", child.plan.name)
        return True

    def _is_drained(self, child: Child) -> bool:
        return child.plan.role == "worker" and (self._folder / child.plan.folder / DRAINED).exists()

    def _start(self, indexes: Sequence[int], crew: Staff) -> bool:
        """Start workers; whether that could be done."""
        try:
            for index in indexes:
                self._ready[index] = self._ready.get(index) or self._make(index)
                crew.add([self._ready[index]])
        except (FleetError, OSError) as error:
            self._again_at = time.monotonic() + AGAIN_S
            log.warning("cannot start another worker, trying on: %s", error)
            self._tell(f"fleetrun cannot start workers: {error}")
            return False
        log.info("starting worker%s %s", "s" * (len(indexes) > 1), ", ".join(map(str, indexes)))
        return True

    def _make(self, index: int) -> ReadyProcess:
        model = next(one for one in self._plan.processes if one.role == "worker")
        endpoint = self._plan.layout.workers[index]
        log_path = model.log_path.with_name(f"workerlog.{index}")
        gpus = model.variables.get("CUDA_VISIBLE_DEVICES", "").split(",") if model.device != "cpu" else ()
        own, device = worker_variables(endpoint, index, self._plan.layout.local_workers.index(index), gpus)
        variables = model.variables | own
        plan = replace(
            model, index=index, endpoint=str(endpoint), device=device, variables=variables, log_path=log_path
        )
        lock = durable.lock(self._options, plan.folder, self._holds)
        return ReadyProcess(plan, open_log(log_path, self._holds), lock)

    def _tell(self, failure: str = "") -> None:
        """Answer the wish."""
        if self._present is not None:
            told, self._present = self._present, None
            self._tell_all(replace(told, by=self._plan.layout.node_index, failure=failure))


def _number_of(wish: ScaleWish | None, limits: Nodes, layout: JobLayout) -> Sequence[int]:
    """The workers of this machine, of which the job has as many as are wanted; `limits` are those of a machine.

    A wish may be older than the present limits.
    """
    each, more = divmod(0 if wish is None else wish.workers, layout.num_nodes)
    here = min(max(each + (layout.node_index < more), limits.least), limits.most)
    return layout.local_workers[:here]


def first_workers(options: Options, limits: Nodes, layout: JobLayout) -> Sequence[int]:
    """The numbers of the workers that a job begins with on this machine.

    One that goes on begins with as many as it had last, and with all that have still to hand back what they had.
    """
    folder = Path(options.durable or "")
    if (folder / FINISHED).exists():  # what lies there is of a job that has finished
        ScaleNotes(folder).remove()
    wanted = _number_of(ScaleNotes(folder).wanted(), limits, layout)
    kept = {index: folder / f"worker-{index}" for index in layout.local_workers}
    owing = {index for index, one in kept.items() if (one / "answers").exists() and not (one / DRAINED).exists()}
    return sorted({*wanted, *(() if (folder / FINISHED).exists() else owing)})


def note_limits(options: Options, num_nodes: int) -> None:
    """Say in the folder of the job how many workers and servers there may be, on all machines together."""
    workers, servers = (
        None if one is None else ScaleLimits(one.least * num_nodes, one.most * num_nodes)
        for one in (options.worker_range, options.server_range)
    )
    if options.durable is not None and (workers is not None or servers is not None):
        ScaleNotes(options.durable).limit(workers, servers)
