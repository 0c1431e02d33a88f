"""A machine of a durable job whose fleetrun is killed: its seat is kept, and it comes back into the round that runs."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from fleet.net import Hold
from support.durable import burning_job
from support.jobs import RunningJob, fleetrun
from support.processes import wait_until

pytestmark = pytest.mark.timeout(300)
LIMIT_S, NUM_STEPS, PAUSE_MS = 60.0, 40, 50
ENVIRON = {"OMP_NUM_THREADS": "1"}


class Machines:
    """Two launchers of one job, each with a folder of its own; the first has the meeting point."""

    def __init__(self, folder: Path) -> None:
        with Hold.any_port(plain=True) as hold:
            self._point = hold.endpoint
        self._folders = [folder / str(number) for number in (0, 1)]
        for one in self._folders:
            one.mkdir()

    def start(self, number: int, num_workers: int = 1, environ: Mapping[str, str] = ENVIRON) -> RunningJob:
        own = ["--master", self._point, "--nnodes", 2, "--rank", number, "--durable", "kept"]
        job = ["--server_num", 1, "--worker_num", num_workers, burning_job.__file__, "sync", NUM_STEPS, PAUSE_MS]
        started = RunningJob([*own, *job], self._folders[number], environ, warm=True)
        if number == 0:
            wait_until(self._is_there, LIMIT_S, "the meeting point")
        return started

    def _is_there(self) -> bool:
        with suppress(OSError), socket.create_connection((self._point.host, self._point.port)):
            return True
        return False

    def steps(self, number: int) -> list[int]:
        log = self._folders[number] / "log" / f"workerlog.{number}"
        return [int(one) for one in re.findall(r"^step (\d+) ", log.read_text(), re.MULTILINE)] if log.exists() else []

    def kill(self, second: RunningJob) -> None:
        """The launcher of the second machine, under way; its guard ends all that it has started."""
        wait_until(lambda: 5 in self.steps(1), LIMIT_S, "step 5")
        os.kill(second.pid, signal.SIGKILL)
        second.finish()


def test_a_machine_that_is_killed_comes_back_into_the_round(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    words = ["--server_num", 1, "--worker_num", 2, burning_job.__file__, "sync", NUM_STEPS]
    alone = fleetrun(*words, cwd=tmp_path / "alone", environ=ENVIRON, warm=True)
    machines = Machines(tmp_path)
    with machines.start(0) as first, machines.start(1) as second:
        machines.kill(second)
        with machines.start(1) as again:
            results = first.finish(), again.finish()
    assert [result.code for result in results] == [0, 0], results[0].err + results[1].err
    assert machines.steps(0) == list(range(NUM_STEPS)), "worker 0 has one life"
    assert results[0].out.splitlines()[-2:] == alone.out.splitlines()[-2:]
    said = [line for line in results[0].err.splitlines() if "machine 1 (127.0.0.1)" in line]
    assert said[0].endswith("is gone: its fleetrun ended; it may come back within 300 s (FLEET_RECOVERY_TIMEOUT_S)")
    assert said[1].endswith("machine 1 (127.0.0.1) is back")


def test_a_machine_that_does_not_come_back_ends_the_job(tmp_path: Path) -> None:
    machines = Machines(tmp_path)
    soon = {**ENVIRON, "FLEET_RECOVERY_TIMEOUT_S": "5"}
    with machines.start(0, environ=soon) as first, machines.start(1, environ=soon) as second:
        machines.kill(second)
        result = first.finish()
    assert result.code == 1
    assert "machine 1 (127.0.0.1) is gone: its fleetrun ended" in result.err


def test_another_machine_does_not_get_the_seat(tmp_path: Path) -> None:
    machines = Machines(tmp_path)
    with machines.start(0) as first, machines.start(1) as second:
        machines.kill(second)
        with machines.start(1, num_workers=2) as other:
            told = other.finish()
        first.send(signal.SIGTERM)
        first.finish()
    assert told.code == 2
    assert "the job runs, and waits for 127.0.0.1 to come back; start fleetrun there as it was started" in told.err
