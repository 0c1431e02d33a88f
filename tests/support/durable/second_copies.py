"""Servers with second copies, each process on a "machine" of its own: a folder. The test decides about terms itself."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from fleet.jobfiles.copy_notes import CopylessNote, CopyNote, copy_note, copyless_note
from fleet.jobfiles.process_files import ProcessFiles
from fleet.jobfiles.serving import serving_since
from fleet.jobfiles.terms import Term, Terms
from fleet.net import Endpoint, Hold
from fleet.ps.durable.recovery import recover
from fleet.ps.proto import ps_pb2
from fleet.ps.steps.core import Core
from fleet.ps.steps.state import ServerState
from fleet.ps.wire.trust.own_token import user_token
from support.jobs import LIMIT_S, Process, clean_environ, end, start
from support.processes import wait_until
from support.serving.serving import reached


class Machine:
    """One server or copy, in a folder that is lost with it."""

    def __init__(self, job: Copied, folder: Path, server: int, *, is_copy: bool) -> None:
        self.job, self.folder, self.server, self.is_copy = job, folder, server, is_copy
        self.hold = Hold.any_port()
        self.files = ProcessFiles.beside(folder / "serverlog")
        self.lives = 0
        self.process: Process | None = None
        self.terms = Terms(folder / "durable")

    @property
    def endpoint(self) -> Endpoint:
        return self.hold.endpoint

    def start(self) -> None:
        """Start it, or start it again; on return it serves."""
        if self.process is not None:
            end(self.process)
        self.files.remove()
        self.folder.mkdir(exist_ok=True)
        (self.folder / "durable").mkdir(exist_ok=True)
        environ = {
            **clean_environ(),
            **self.job.environ,
            "FLEET_JOB_ID": "copies",
            "FLEET_DURABLE": str(self.folder / "durable"),
            "FLEET_NOTE_FILE": str(self.files.note),
            "FLEET_LIFE": str(self.lives),
            "TRAINING_ROLE": "PSERVER",
            "PADDLE_TRAINERS_NUM": "1",
            "POD_IP": self.endpoint.host,
            "PADDLE_PORT": str(self.endpoint.port),
            "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(str(one.endpoint) for one in self.job.first),
            **({"FLEET_COPY_OF": str(self.server)} if self.is_copy else {}),
        }
        self.process = start([sys.executable, "-m", "fleet.ps.server"], self.folder, environ, warm=True)
        self.lives += 1
        wait_until(lambda: serving_since(self.files.serving) or self._has_ended(), LIMIT_S, "a server to serve")

    def kill(self) -> None:
        """End it as kill -9 does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(LIMIT_S)

    def burn(self) -> None:
        """Lose the machine, with its disk."""
        self.kill()
        shutil.rmtree(self.folder)

    def stop(self) -> None:
        """Let it stand still, as behind a cut cable: it does not answer, and does not know why."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    @property
    def said(self) -> CopyNote | None:
        """What it says of itself as a copy."""
        return copy_note(self.files.copy)

    @property
    def complaint(self) -> CopylessNote | None:
        """What it says, as a server, of its copy."""
        return copyless_note(self.files.copyless)

    def state(self) -> ServerState:
        """What is on its disk; it must not run."""
        core = Core()
        recover(core.state, self.folder / "durable" / f"server-{self.server}")
        return core.state

    def close(self) -> None:
        if self.process is not None:
            end(self.process)
        self.hold.close()

    def _has_ended(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"a server has ended: {self.process.communicate()}")
        return False


class Copied:
    """Some servers, with the machines that may become copies of them; worker and test see the terms in `worker`."""

    def __init__(self, folder: Path, num_servers: int = 1, standby: str = "SYNC", **environ: str) -> None:
        self.folder = folder
        self.environ = {"FLEET_STANDBY": standby, **environ}
        self._stack = ExitStack()
        self._machines: list[Machine] = []
        self.first: list[Machine] = []
        self.first = [self._machine(server, is_copy=False) for server in range(num_servers)]
        self.worker = Terms(folder / "worker")
        self.servers = list(self.first)
        self.copies: list[Machine | None] = [None] * num_servers
        self.number = 0

    def __enter__(self) -> Copied:
        self.decide()
        for server in self.first:
            server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def endpoints(self) -> list[Endpoint]:
        return [one.endpoint for one in self.servers]

    def _machine(self, server: int, *, is_copy: bool) -> Machine:
        made = Machine(self, self.folder / f"machine-{len(self._machines)}", server, is_copy=is_copy)
        self._machines.append(made)
        self._stack.callback(made.close)
        return made

    def term(self) -> Term:
        copies = ("" if one is None else str(one.endpoint) for one in self.copies)
        return Term(self.number, tuple(str(one.endpoint) for one in self.servers), tuple(copies))

    def decide(self, *but: Machine) -> None:
        """The next term is in use everywhere, but on some machines that are cut off."""
        self.number += 1
        for machine in self._machines:
            if machine not in but and (machine.folder.exists() or self.number == 1):
                machine.terms.use(self.term())
        self.worker.use(self.term())

    def begin_copy(self, server: int = 0) -> Machine:
        """Start a copy, which is being filled."""
        copy = self._machine(server, is_copy=True)
        copy.terms.use(self.term())
        copy.start()
        return copy

    def list_copy(self, copy: Machine) -> None:
        """Wait until a copy is whole, and list it."""
        wait_until(lambda: self.is_whole(copy), LIMIT_S, "a copy to be whole")
        self.copies[copy.server] = copy
        self.decide()

    def add_copy(self, server: int = 0) -> Machine:
        copy = self.begin_copy(server)
        self.list_copy(copy)
        return copy

    def is_whole(self, copy: Machine) -> bool:
        """Whether a copy may be listed, as fleetrun decides it."""
        return copy.said is not None and copy.said.is_whole and copy.said.term == self.number

    def drop_copy(self, server: int = 0) -> None:
        """Go on without a copy."""
        self.copies[server] = None
        self.decide()

    def promote(self, server: int = 0, *but: Machine) -> Machine:
        """Put the copy in the place of its server."""
        copy = self.copies[server]
        assert copy is not None
        self.servers[server], self.copies[server] = copy, None
        self.decide(*but)
        wait_until(lambda: self._answers(copy), LIMIT_S, "the copy to be the server")
        return copy

    def _answers(self, machine: Machine) -> bool:
        with reached(machine.endpoint, user_token()) as transport:
            header = ps_pb2.BoardRequest.Header(caller=ps_pb2.Caller(term=self.number))
            return transport.call("Board", header, (), LIMIT_S).exception() is None
