"""Starts real fleetrun jobs with small scripts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.processes import wait_until
from support.warm import WarmProcess
from support.warm_server import FORK_BESIDE_THREADS

FLEETRUN = (sys.executable, "-m", "fleet.launch")
# A job that takes longer than this is stuck, also on a machine that does ten other things.
LIMIT_S = 180.0


@dataclass(frozen=True)
class Result:
    """A finished job."""

    code: int
    out: str
    err: str
    seconds: float


def script(folder: Path, text: str, name: str = "train.py") -> Path:
    """Write a training script."""
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


Process = subprocess.Popen[str] | WarmProcess


def start(command: Sequence[object], cwd: Path, environ: Mapping[str, str], *, warm: bool) -> Process:
    """A process whose output is kept: with a new interpreter or, `warm`, forked with its imports behind it."""
    if warm:
        return WarmProcess(command, cwd, environ)
    return subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextlib.contextmanager
def running(command: Sequence[object], cwd: Path, environ: Mapping[str, str], *, warm: bool) -> Iterator[Process]:
    """The same; it does not outlive the block, whatever happens there."""
    process = start(command, cwd, environ, warm=warm)
    try:
        yield process
    finally:
        end(process)


def end(process: Process) -> None:
    """Kill it if it still runs, and let go of its output."""
    if process.poll() is None:
        process.kill()
    process.communicate()
    if isinstance(process, WarmProcess):
        process.close()


class RunningJob:
    """A fleetrun in the background. Scripts talk to tests through files in the working folder.

    A `warm` one and its processes are forked with their imports behind them (`support.warm`); with `real_restarts`,
    those that are started again have new interpreters, which take apart what they hold when they end.
    """

    def __init__(
        self,
        arguments: Sequence[object],
        cwd: Path,
        environ: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        warm: bool = False,
        real_restarts: bool = False,
    ) -> None:
        self.cwd = cwd
        self._started = time.monotonic()
        command, environ = [*prefix, *FLEETRUN, *map(str, arguments)], {**clean_environ(), **(environ or {})}
        if prefix:  # a machine of its own, which may be killed: it leaves what is on its disk
            environ.setdefault("TMPDIR", str(cwd))
        if warm and not real_restarts:  # also what is started again, and where there are other machines
            environ[FORK_BESIDE_THREADS] = "1"
        self._process = start(command, cwd, environ, warm=warm)
        self.pid = self._process.pid

    def __enter__(self) -> RunningJob:
        return self

    def __exit__(self, *_: object) -> None:
        """End the job whatever the test did; its own guard then ends the rest."""
        end(self._process)

    def read(self, name: str) -> str:
        """What a script has written to a file of the working folder, once it is there and complete."""
        path = self.cwd / name
        wait_until(
            lambda: (path.exists() and path.read_text().endswith("\n")) or self._process.poll() is not None,
            LIMIT_S,
            f"{name}",
        )
        assert path.exists(), f"the job ended before {name} was written: {self._process.communicate()}"
        return path.read_text().strip()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ends_within(self, seconds: float) -> bool:
        """Whether it has ended by then; only for a job that says little, for nobody reads its output."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.poll() is not None

    def finish(self, limit_s: float = LIMIT_S) -> Result:
        """Wait for the end."""
        try:
            out, err = self._process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            out, err = self._process.communicate()
            raise AssertionError(f"the job did not end within {limit_s} s\n{out}\n{err}") from None
        return Result(self._process.wait(), out, err, time.monotonic() - self._started)


def clean_environ() -> dict[str, str]:
    """This process's environment without anything that could tell a child its role."""
    prefixes = ("PADDLE_", "FLEET_", "SLURM_", "OMPI_", "PMI", "TORCHELASTIC_")
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TRAINING_ROLE", "POD_IP")
    return {
        name: value
        for name, value in os.environ.items()
        if (not name.startswith(prefixes) or name == "FLEET_TEST_MARK") and name not in names
    }


def fleetrun(
    *arguments: object,
    cwd: Path,
    environ: Mapping[str, str] | None = None,
    limit_s: float = LIMIT_S,
    warm: bool = False,
) -> Result:
    """Run a job to its end."""
    with RunningJob(arguments, cwd, environ, warm=warm) as job:
        return job.finish(limit_s)


def python(
    *command: object, cwd: Path, environ: Mapping[str, str] | None = None, limit_s: float = LIMIT_S, warm: bool = False
) -> str:
    """Run a script by itself, in one thread since the machine may be busy with other tests; what it printed."""
    variables = {**clean_environ(), "OMP_NUM_THREADS": "1", **(environ or {})}
    with running([sys.executable, *command], cwd, variables, warm=warm) as process:
        out, err = process.communicate(timeout=limit_s)
    assert process.returncode == 0, err
    return out
