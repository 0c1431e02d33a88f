"""This machine's part in a job whose servers have copies: it does what the meeting point orders, and accounts for it.

Orders come whole, and what they ask for is compared with what runs here, so nothing depends on their number. A term is
written down and accounted for before it is used; a disk that does not take it is tried again, and all others wait.
"""

import contextlib
import logging
import math
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.errors import FleetError
from fleet.job.comebacks import how_it_died
from fleet.jobfiles.terms import Terms
from fleet.launch.arguments.options import Options
from fleet.launch.durable import folder as durable
from fleet.launch.planning.plan import LaunchPlan, ProcessPlan
from fleet.launch.planning.standby_job import copy_plan, moved_worker
from fleet.launch.processes.child import Child
from fleet.launch.processes.logs import ReadyProcess, open_log
from fleet.launch.processes.spare import Spare
from fleet.launch.run.crew import Crew
from fleet.launch.standby.kept import remember
from fleet.launch.standby.orders import MachineAccount, Orders
from fleet.launch.standby.words import news
from fleet.net import Endpoint, Hold

log = logging.getLogger("fleetrun")

SPARE_AFTER_S = 10.0
"""How long after the start of a job each machine gets ready to start a worker that another one has lost."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
"""How long after the death of a copy another one is started; twice as long each time."""


@dataclass
class _Copy:
    child: Child
    since: int
    """What its orders said when it was started."""


class Station:
    """What runs here for the job as a whole, and what the meeting point knows of it."""

    def __init__(
        self,
        options: Options,
        plan: LaunchPlan,
        orders: Orders,
        hosts: tuple[str, ...],
        holds: ExitStack,
        tell: Callable[[MachineAccount], None],
    ) -> None:
        """`orders`: the first ones, whose term is in use when this returns. `hosts`: the address of each machine."""
        assert options.durable is not None
        self._options = options
        self._plan = plan
        self._me = plan.layout.node_index
        self._hosts = hosts
        self._holds = holds
        self._tell = tell
        self._orders = self._used = orders
        self._account = MachineAccount(orders)
        self._told: MachineAccount | None = None
        self._copies: dict[int, _Copy] = {}
        self._num_started = dict.fromkeys(range(len(orders.servers)), 0)
        self._start_at: dict[int, float] = {}
        self._gone: tuple[str, ...] = ()
        self._lives = {worker: 0 for worker, post in enumerate(orders.workers) if post.machine == self._me}
        self._spare: Spare | None = None
        self._spare_at = time.monotonic() + SPARE_AFTER_S
        self._folder = Path(options.durable).absolute()
        self._terms = Terms(self._folder)
        self._endpoints = [
            seat.endpoint for seat in (*orders.servers, *orders.copies) if seat is not None and seat.machine == self._me
        ]
        remember(self._folder, self._endpoints)
        self._terms.use(orders.term)

    def begin(self, crew: Crew) -> None:
        """The processes of the plan have started."""
        self._crew = crew
        for child in crew.children:
            if child.plan.role == "copy":
                self._copies[child.plan.index] = _Copy(child, self._orders.since[child.plan.index])
                self._num_started[child.plan.index] += 1
        self.look()

    def obey(self, orders: Orders) -> None:
        """Do what the meeting point says."""
        if orders.is_newer(self._orders):
            self._orders = orders
            self.look()

    def look(self) -> None:
        """Do what is still to be done, and tell the meeting point what is new here."""
        if self._has_written() and self._orders.is_used:
            self._promote()
            self._stop_copies()
            self._start_copies()
            self._start_workers()
            self._keep_spare()
        account = replace(
            self._account,
            copies={server: self._about(copy) for server, copy in self._copies.items()},
            gone=self._gone,
            copyless=self._copyless(),
            done=tuple(child.plan.index for child in self._crew.workers if child.status == 0),
        )
        self._account = account
        if account != self._told:
            self._told = account
            self._tell(account)

    def takes(self, child: Child) -> bool:
        """Whether a process that has ended was a copy; another one is started where the meeting point wants it."""
        if child.plan.role != "copy":
            return False
        server = child.plan.index
        self._crew.release(child)
        self._crew.drop(child)
        copy = self._copies.get(server)
        if copy is not None and copy.child is child:
            del self._copies[server]
            if not child.was_told_to_stop:
                pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (self._num_started[server] - 1))
                self._start_at[server] = time.monotonic() + pause_s
                log.warning("%s %s (see %s)", child.plan.name, how_it_died(child.status or 0), child.plan.log_path)
        self.look()
        return True

    def spares(self, child: Child) -> bool:
        """Whether a server that is not started again has a copy that takes its place."""
        server = child.plan.index
        if child.plan.role != "server" or self._used.copies[server] is None:
            return False
        log.warning("%s is not started again; its copy takes its place", child.plan.name)
        self._gone = (*self._gone, child.plan.endpoint)
        self._crew.release(child)
        self._crew.drop(child)
        self.look()
        return True

    def _has_written(self) -> bool:
        """Write the newest term down, if that was not done; whether the disk has it."""
        orders = self._orders
        try:
            if not orders.is_used and self._account.orders.number < orders.number:
                self._terms.write_down(orders.term)
            elif orders.is_used and self._used.number < orders.number:
                self._terms.use(orders.term)
        except OSError as error:
            log.warning("term %d cannot be written to %s, trying on: %s", orders.number, self._folder, error.strerror)
            return False
        self._account = replace(self._account, orders=orders)
        if orders.is_used:
            for level, line in news(self._used, orders, self._hosts):
                log.log(level, "%s", line)
            self._used = orders
        return True

    def _promote(self) -> None:
        """Copies that have become servers; one that is not there any more is lost, which the meeting point hears."""
        running = {child.plan.endpoint: child for child in self._crew.children}
        for server, seat in enumerate(self._orders.servers):
            if seat.machine != self._me or seat.endpoint in self._gone:
                continue
            child = running.get(seat.endpoint)
            if child is None:
                self._gone = (*self._gone, seat.endpoint)
            elif child.plan.role == "copy":
                del self._copies[server]
                self._crew.change(child, role="server")

    def _stop_copies(self) -> None:
        """End copies that are not wanted any more, and those that have lost their server; another one is started."""
        for server, copy in list(self._copies.items()):
            listed = self._orders.copies[server]
            is_listed = listed is not None and listed.endpoint == copy.child.plan.endpoint
            is_filling = self._orders.fills[server] == self._me and copy.since == self._orders.since[server]
            if not is_listed and not is_filling:
                del self._copies[server]
                copy.child.signal(signal.SIGKILL)

    def _start_copies(self) -> None:
        now = time.monotonic()
        for server, machine in enumerate(self._orders.fills):
            if machine != self._me or server in self._copies or now < self._start_at.get(server, 0.0):
                continue
            self._num_started[server] += 1
            try:
                endpoint = self._holds.enter_context(Hold(Endpoint(self._plan.layout.host, 0))).endpoint
                number = self._num_started[server]
                plan = copy_plan(self._options, self._plan.processes, server, str(endpoint), number)
                self._endpoints.append(str(endpoint))
                remember(self._folder, self._endpoints)
                child = self._start(plan)
            except (OSError, FleetError) as error:
                log.warning("cannot start a copy of server %d, trying on: %s", server, error)
                self._start_at[server] = now + LONGEST_PAUSE_S
            else:
                self._copies[server] = _Copy(child, self._orders.since[server])

    def _start_workers(self) -> None:
        for worker, post in enumerate(self._orders.workers):
            if post.machine != self._me or self._lives.get(worker, -1) >= post.life or worker in self._orders.done:
                continue
            try:
                beside = [child.plan for child in self._crew.children]
                plan = moved_worker(self._options, beside or self._plan.processes, self._plan.layout, worker)
                self._start(plan, post.life, self._take_spare())
            except (OSError, FleetError) as error:
                log.warning("cannot start worker %d, trying on: %s", worker, error)
            else:
                self._lives[worker] = post.life

    def _keep_spare(self) -> None:
        """Have an interpreter ready as long as there is a machine whose workers may have to be started here."""
        is_needed = len(self._orders.machines) > 1 and not self._orders.is_over
        if is_needed and self._spare is None and time.monotonic() > self._spare_at and self._crew.workers:
            self._spare_at = math.inf
            with contextlib.suppress(OSError):  # without one a worker starts more slowly
                self._spare = self._crew.spare(self._crew.workers[0].plan)

    def _take_spare(self) -> Spare | None:
        spare, self._spare, self._spare_at = self._spare, None, time.monotonic() + SPARE_AFTER_S
        return spare

    def close(self) -> None:
        """The processes of this machine have ended."""
        if self._spare is not None:
            self._spare.close()

    def _start(self, plan: ProcessPlan, life: int = 0, spare: Spare | None = None) -> Child:
        lock = self._crew.lock_of(plan.folder) or durable.lock(self._options, plan.folder, self._holds)
        shutil.rmtree(self._folder / plan.folder, ignore_errors=True)  # of another life here, or of another job
        (self._folder / plan.folder).mkdir()
        ready = ReadyProcess(plan, open_log(plan.log_path, self._holds), lock)
        return self._crew.add([ready], life, spare)[0]

    def _about(self, copy: _Copy) -> tuple[str, int]:
        note = copy.child.copy_note
        return copy.child.plan.endpoint, note.term if note is not None and note.is_whole else 0

    def _copyless(self) -> dict[int, int]:
        notes = [child.copyless_note for child in self._crew.children if child.plan.role == "server"]
        return {note.server: note.term for note in notes if note is not None}
