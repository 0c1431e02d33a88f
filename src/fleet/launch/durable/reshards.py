"""Servers that are started and stopped while a durable job runs, because it wants another number of them.

Worker 0 asks for a layout, in a file; here its servers are started, and worker 0 moves the rows. Then a file says which
layout holds, and the servers of the other one are stopped. See fleet.jobfiles.layouts.
"""

import logging
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from fleet import env
from fleet.errors import FleetError
from fleet.job.lives import Lives
from fleet.jobfiles.layouts import Layouts
from fleet.launch.arguments.options import Options
from fleet.launch.durable import folder as durable
from fleet.launch.durable.staff import Staff
from fleet.launch.meet.messages import Scaled
from fleet.launch.planning.plan import LaunchPlan
from fleet.launch.processes.child import Child
from fleet.launch.processes.logs import ReadyProcess, open_log
from fleet.net import Endpoint, Hold

GRACE_S = 5.0
"""How long a server may take to end after it was told to; then it is killed."""
LINGER_S = 2.0
"""How long servers whose rows have moved go on saying so."""

log = logging.getLogger("fleetrun")


class Reshards:
    """The layouts that the job asks for, one after the other."""

    def __init__(self, options: Options, plan: LaunchPlan, holds: ExitStack) -> None:
        assert options.durable is not None
        self._options = options
        self._plan = plan
        self._holds = holds
        self._layouts = Layouts(Path(options.durable).absolute())
        self._number = max((process.layout for process in plan.processes), default=0)
        """The number of the layout that holds."""
        self._starting: int | None = None
        self._last = self._layouts.newest
        self._past: dict[int, float] = {}
        """Layouts whose servers were told to stop, and when they are killed if they do not."""
        self._to_stop: dict[int, float] = {}
        """Layouts whose servers will be, and when."""

    def look(self, crew: Staff, lives: Lives[Child]) -> None:
        """Start the servers of a layout that the job asks for; stop those of one that has had its time."""
        if made := self._asked():
            try:
                crew.add(made)
            except OSError as error:
                self._failed(f"fleetrun cannot start servers: {error.strerror or error}")
            else:
                self._begun(made)
        self._stop_past(crew.children, lives.forget)

    def hear(self, told: Scaled) -> None:
        """Leave the number of workers to others."""

    def takes(self, child: Child, crew: Staff) -> bool:
        """Whether a process that has ended is a server of a layout that has had its time.

        After the last of its layout, what they have left is removed.
        """
        layout = child.plan.layout
        if child.plan.role != "server" or layout not in (*self._past, *self._to_stop):
            return False
        crew.release(child)
        if not _running(crew.children, layout):
            self._layouts.clear_servers(lambda number: number == layout)
        return True

    def _asked(self) -> list[ReadyProcess]:
        """The servers to start now, if somebody has asked for some."""
        number = self._layouts.newest if self._layouts.folder.exists() else 0
        if self._starting is not None or number <= self._last or self._layouts.decided(number) is not None:
            return []
        self._last = number
        num_servers = self._layouts.asked(number)
        if num_servers is None:
            return []
        if why := self._why_not():
            self._layouts.start(number, (), why)
            return []
        try:
            made = self._make(number, num_servers)
        except FleetError as error:
            self._layouts.start(number, (), str(error))
            return []
        self._starting = number
        kind = "server" if num_servers == 1 else "servers"
        log.warning("starting %d new %s, to take the place of those that run", num_servers, kind)
        return made

    def _begun(self, made: Sequence[ReadyProcess]) -> None:
        """Let worker 0 know that the servers of `_asked` have been started."""
        assert self._starting is not None
        self._layouts.start(self._starting, [one.plan.endpoint for one in made])

    def _failed(self, why: str) -> None:
        """Let worker 0 know that the servers of `_asked` could not be started."""
        assert self._starting is not None
        self._layouts.start(self._starting, (), why)
        self._layouts.decide(self._starting, abandoned=why)

    def _stop_past(self, children: Sequence[Child], forget: Callable[[Child], None]) -> None:
        """Stop the servers of a layout that has had its time, once that is decided; `forget` those that are away."""
        now = time.monotonic()
        if self._starting is not None and (decided := self._layouts.decided(self._starting)) is not None:
            self._starting = None
            gone = self._number if decided.endpoints else decided.number
            if decided.endpoints:
                self._number = decided.number
                log.warning("servers: %d from now on (layout %d)", len(decided.endpoints), decided.number)
            else:
                log.warning("the servers stay as they are: %s", decided.abandoned)
            self._to_stop[gone] = now + (LINGER_S if decided.endpoints else 0.0)
            for child in children:
                if child.plan.role == "server" and child.plan.layout == gone:
                    forget(child)
        for layout in [one for one, at in self._to_stop.items() if now >= at]:
            del self._to_stop[layout]
            self._past[layout] = now + GRACE_S
            for child in _running(children, layout):
                child.signal(signal.SIGTERM)
        for layout in [one for one, at in self._past.items() if now > at]:
            for child in _running(children, layout):
                child.signal(signal.SIGKILL)

    def _why_not(self) -> str:
        layout = self._plan.layout
        if self._options.standby is not None:
            return "the number of servers does not change while they have copies; leave --standby out"
        if layout.num_nodes > 1:
            return "the number of servers changes on one machine only, and this job has several"
        if self._options.servers is not None:
            return "--servers names every server; start the job with --server_num to change their number"
        return ""

    def _make(self, number: int, num_servers: int) -> list[ReadyProcess]:
        host = self._plan.layout.servers[0].host
        endpoints = [self._holds.enter_context(Hold(Endpoint(host, 0))).endpoint for _ in range(num_servers)]
        model = next(process for process in self._plan.processes if process.role == "server")
        listed = ",".join(map(str, endpoints))
        made = []
        for index, endpoint in enumerate(endpoints):
            variables = model.variables | {
                "PADDLE_PSERVERS_IP_PORT_LIST": listed,
                "POD_IP": endpoint.host,
                "PADDLE_PORT": str(endpoint.port),
                "PADDLE_PSERVER_ID": str(index),
                env.FLEET_LAYOUT.name: str(number),
            }
            log_path = Path(self._options.log_dir) / f"serverlog.{index}.{number}"
            plan = replace(
                model, index=index, endpoint=str(endpoint), variables=variables, log_path=log_path, layout=number
            )
            lock = durable.lock(self._options, plan.folder, self._holds)
            assert lock is not None
            made.append(ReadyProcess(plan, open_log(log_path, self._holds), lock))
        return made


def _running(children: Sequence[Child], layout: int) -> list[Child]:
    """The servers of a layout that still run."""
    return [one for one in children if one.is_running and one.plan.role == "server" and one.plan.layout == layout]
