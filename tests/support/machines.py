"""Machines that may burn: namespaces at a switch with a fleetrun and a disk folder each, of one job with copies."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from fleet.jobfiles.terms import Term, Terms
from support.hosts import Network
from support.jobs import Result, RunningJob
from support.processes import wait_until

LIMIT_S = 120.0


class Machines:
    """The job on all of them; each works in a folder of its own, `machine-N`, where its part of DIR is."""

    def __init__(
        self,
        stack: ExitStack,
        network: Network,
        folder: Path,
        arguments: Sequence[object],
        environ: Mapping[str, str] | None = None,
        *,
        warm: bool = False,
    ) -> None:
        """`arguments` are those behind `--durable DIR --master`."""
        self.network = network
        self.num = len(network.hosts)
        self.folders = [folder / f"machine-{number}" for number in range(self.num)]
        self.left = list(range(self.num))
        """Those that have not burned."""
        point = f"{network.hosts[0].address}:6000"
        self.jobs = []
        for number, host in enumerate(network.hosts):
            self.folders[number].mkdir(parents=True, exist_ok=True)
            own = ["--master", point, "--nnodes", self.num, "--rank", number, "--durable", "kept"]
            job = RunningJob([*own, *arguments], self.folders[number], environ, host.prefix, warm=warm)
            self.jobs.append(stack.enter_context(job))

    def terms(self, machine: int) -> Terms:
        """What a machine knows."""
        return Terms(self.folders[machine] / "kept")

    def wait_for_terms(self, number: int) -> list[Term]:
        """The newest terms of all that are left, once they have come to this number."""
        return [self._wait_for_term(machine, number) for machine in self.left]

    def _wait_for_term(self, machine: int, number: int) -> Term:
        terms = self.terms(machine)

        def is_there() -> bool:
            newest = terms.newest()
            return newest is not None and newest.number >= number

        wait_until(is_there, LIMIT_S, f"term {number} on machine {machine}")
        newest = terms.newest()
        assert newest is not None
        return newest

    def burn(self, machine: int) -> None:
        """End everything that runs on a machine at once, and its disk."""
        self.left.remove(machine)
        for pid in _all_below(self.jobs[machine].pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folders[machine] / "kept", ignore_errors=True)

    def finish(self) -> list[Result]:
        """The ends of those that are left."""
        return [self.jobs[machine].finish() for machine in self.left]


def _all_below(pid: int) -> Iterator[int]:
    """A process and what it has started, the oldest first."""
    yield pid
    for path in Path("/proc", str(pid), "task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in path.read_text().split():
                yield from _all_below(int(child))
