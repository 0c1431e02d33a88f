"""Workers of a durable job without a launcher: whoever is killed is started again by the test."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from fleet.ps.server.service import Service
from support.jobs import LIMIT_S, Process, running
from support.processes import wait_until


class Workers:
    """The workers of one job, and their lives."""

    def __init__(
        self,
        stack: ExitStack,
        endpoints: Sequence[object],
        num: int,
        program: Path,
        arguments: Sequence[str],
    ) -> None:
        self._stack = stack
        self._program = program
        self._environ = {
            **os.environ,
            "TRAINING_ROLE": "TRAINER",
            "PADDLE_TRAINERS_NUM": str(num),
            "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(map(str, endpoints)),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(f"127.0.0.1:{1 + index}" for index in range(num)),  # never opened
        }
        self._arguments = arguments
        self._folder = Path(os.environ["FLEET_DURABLE"]).parent
        self.present: list[Process] = []
        for index in range(num):
            self.present.append(self._start(index))

    def _start(self, index: int) -> Process:
        environ = {**self._environ, "PADDLE_TRAINER_ID": str(index)}
        command = [sys.executable, self._program, *self._arguments]
        return self._stack.enter_context(running(command, self._folder, environ, warm=True))

    def kill(self, index: int) -> None:
        """Kill one and start it again, if it has not ended by itself."""
        if self.present[index].poll() not in (None, -signal.SIGKILL):
            return
        if self.present[index].poll() is None:
            os.kill(self.present[index].pid, signal.SIGKILL)
        self.present[index].wait(LIMIT_S)
        self.present[index] = self._start(index)

    def has_failed(self) -> bool:
        """Whether one has ended in error; `finish` says how."""
        return any(process.poll() not in (None, 0, -signal.SIGKILL) for process in self.present)

    def revive(self) -> None:
        """Start those again that were killed, until all have ended otherwise."""
        alive = -1
        while alive:
            for index, process in enumerate(self.present):
                if process.poll() == -signal.SIGKILL:
                    self.present[index] = self._start(index)
            codes = [process.poll() for process in self.present]
            alive = sum(code in (None, -signal.SIGKILL) for code in codes)
            now = [process for process, code in zip(self.present, codes, strict=True) if code is None]
            if len(now) == alive:
                wait_for_any(now)

    def finish(self) -> list[str]:
        """Wait for all of them to end well; what each has said in its last life."""
        said = []
        for process in self.present:
            out, err = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0, f"{out}\n{err}"
            said.append(str(out))
        return said


def wait_for_any(processes: Sequence[Process]) -> None:
    """Until one of these, which ran a moment ago, has ended."""
    wait_until(
        lambda: not processes or any(process.poll() is not None for process in processes), LIMIT_S, "a worker to end"
    )


def pushes(services: Sequence[Service]) -> int:
    """How many updates of all workers the first server has."""
    ledger = services[0].state.ledger
    return sum(ledger.history(worker)[0] for worker in range(len(ledger._workers)))


def has_come(services: Sequence[Service], workers: Workers, num_pushes: int) -> bool:
    """Whether so many updates were made, or never will."""
    return pushes(services) >= num_pushes or workers.has_failed()
