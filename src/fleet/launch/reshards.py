"""Servers that are started and stopped while a durable job runs, because it wants another number of them.

Worker 0 asks for a layout, in a file; here its servers are started, and worker 0 moves the rows. Then a file says which
layout holds, and the servers of the other one are stopped. See fleet.observe.layouts.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from fleet import env
from fleet.errors import FleetError
from fleet.launch import durable
from fleet.launch.logs import open_log
from fleet.launch.options import Options
from fleet.launch.plan import LaunchPlan, ProcessPlan
from fleet.net import Endpoint, Hold
from fleet.observe.layouts import Decided, Layouts

log = logging.getLogger("fleetrun")


class Started:
    """A process of a new layout, before it has begun: its plan, its log, and the lock of what it keeps."""

    def __init__(self, plan: ProcessPlan, log_file: int, lock: int) -> None:
        self.plan = plan
        self.log_file = log_file
        self.lock = lock


class Reshards:
    """The layouts that the job asks for, one after the other."""

    def __init__(self, options: Options, plan: LaunchPlan, holds: ExitStack) -> None:
        assert options.durable is not None
        self._options = options
        self._plan = plan
        self._holds = holds
        self._layouts = Layouts(Path(options.durable).absolute())
        self._number = max((process.layout for process in plan.processes), default=0)
        """Of the layout that holds."""
        self._starting: int | None = None
        self._last = self._layouts.newest

    def asked(self) -> list[Started]:
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

    def begun(self, made: list[Started]) -> None:
        """They have been started: let worker 0 know."""
        assert self._starting is not None
        self._layouts.start(self._starting, [one.plan.endpoint for one in made])

    def failed(self, why: str) -> None:
        """They could not be."""
        assert self._starting is not None
        self._layouts.start(self._starting, (), why)
        self._layouts.decide(self._starting, abandoned=why)

    def over(self) -> tuple[Decided, int] | None:
        """The layout that was decided about, and the one whose servers are to be stopped; None while nothing was."""
        if self._starting is None or (decided := self._layouts.decided(self._starting)) is None:
            return None
        gone = self._number if decided.endpoints else decided.number
        if decided.endpoints:
            self._number = decided.number
        self._starting = None
        return decided, gone

    def clean(self, layout: int) -> None:
        """Remove what the servers of a layout have left, all of which have ended."""
        self._layouts.clear_servers(lambda number: number == layout)

    def _why_not(self) -> str:
        layout = self._plan.layout
        if layout.num_nodes > 1:
            return "the number of servers changes on one machine only, and this job has several"
        if self._options.servers is not None:
            return "--servers names every server; start the job with --server_num to change their number"
        return ""

    def _make(self, number: int, num_servers: int) -> list[Started]:
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
            made.append(Started(plan, open_log(log_path, self._holds), lock))
        return made
