"""Looks after one process of a job: it is started again when it dies, by the rules of `restart_policy`.

For engines that end a whole job over one process, as Slurm's --kill-on-bad-exit and TorchX's schedulers do, and for
those that would start all processes again.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

import click

from fleet import env
from fleet.errors import UsageError
from fleet.job.comebacks import how_it_died, summary
from fleet.job.endings import exit_code
from fleet.job.life import ProcessLife
from fleet.job.lives import Lives
from fleet.jobfiles.ending import read_end
from fleet.jobfiles.joining import joined_since
from fleet.jobfiles.process_files import ProcessFiles
from fleet.jobfiles.serving import serving_since
from fleet.observe.logs import show_logs

MAX_RESTART = 10
"""How often a process may die within ten minutes."""
LOOK_S = 0.05
FORWARDED = signal.SIGTERM, signal.SIGINT, signal.SIGUSR1

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_log = logging.getLogger("fleet.job")


def dying_with_launcher() -> Callable[[], None]:
    """What a new process does first, so that it dies when this one does."""
    launcher = os.getpid()

    def begin() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != launcher:  # it died before the line above
            os._exit(1)

    return begin


class Kept(ProcessLife):
    """One life of the process that is looked after."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], note: Path, life: int) -> None:
        """Start it; OSError if the system cannot. The lives that an engine has counted were before its first one."""
        self.life = life
        self._name = f"{environ[env.FLEET_ROLE.name]} {environ[env.FLEET_INDEX.name]}"
        self._files = ProcessFiles(note)
        self._files.remove()
        before, more = env.FLEET_LIFE.get(environ), {env.FLEET_NOTE_FILE.name: str(note)}
        if before is not None or life:  # what nobody has counted is counted in the folder of the job
            more[env.FLEET_LIFE.name] = str((before or 0) + life)
        self.started_at = time.time()
        self.exited_at: float | None = None
        self.status: int | None = None
        self.process = subprocess.Popen(command, env={**environ, **more}, preexec_fn=dying_with_launcher())
        self.pid = self.process.pid

    @property
    def name(self) -> str:
        return self._name

    @property
    def role(self) -> str:
        return self._name.partition(" ")[0]

    @property
    def was_refused(self) -> bool:
        noted = read_end(self._files.end(self.pid))
        return noted is not None and noted.is_refusal

    @property
    def back_at(self) -> float | None:
        is_server = self.role == "server"
        return serving_since(self._files.serving) if is_server else joined_since(self._files.unstopped)

    def has_ended(self) -> bool:
        """Whether it has; its status is known from then on."""
        if self.status is None and (status := self.process.poll()) is not None:
            self.status, self.exited_at = status, time.time()
        return self.status is not None


def keep(command: Sequence[str], environ: Mapping[str, str] | None = None, *, max_restart: int = MAX_RESTART) -> int:
    """Run one process of a job until it ends in order, or nothing speaks for another life; returns its exit code.

    `environ` says who it is (FLEET_ROLE, FLEET_INDEX), by default the environment of this process. SIGTERM, SIGINT and
    SIGUSR1 are passed on, and then its end is the end; outside the main thread the signals are left alone.
    """
    environ = env.inherited() if environ is None else dict(environ)
    for variable in (env.FLEET_ROLE, env.FLEET_INDEX, env.FLEET_DURABLE):
        variable.require("only a process of a durable job that knows its role can be started again", environ)
    environ[env.FLEET_ROLE.name] = env.FLEET_ROLE.require("", environ).lower()
    lives: Lives[Kept] = Lives(max_restart)
    told: list[int] = []
    with tempfile.TemporaryDirectory(prefix="fleet-job-") as folder:
        note = Path(folder) / "process.note"
        present = Kept(command, environ, note, 0)

        def pass_on(number: int, _frame: FrameType | None) -> None:
            told.append(number)
            if not present.has_ended():
                present.process.send_signal(number)

        is_main = threading.current_thread() is threading.main_thread()
        before = {number: signal.signal(number, pass_on) for number in FORWARDED} if is_main else {}
        try:
            while True:
                while not present.has_ended():
                    lives.look()
                    time.sleep(LOOK_S)
                if present.status == 0 or told or not lives.died(present):
                    break
                while not (due := lives.take_due()) and not told:
                    time.sleep(LOOK_S)
                if told:
                    break
                former, present = due[0], Kept(command, environ, note, present.life + 1)
                if told:  # while it was being started
                    present.process.send_signal(told[-1])
                lives.began(former, present)
                how = how_it_died(former.status or 0)
                _log.warning("%s %s; started again in its place (life %d)", present.name, how, present.life + 1)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            if not present.has_ended():  # this is left by an error
                present.process.kill()
                present.process.wait()
    for line in (lives.given_up.get(present), summary(lives.returns)):
        if line:
            _log.warning("%s", line)
    assert present.status is not None
    return exit_code(present.status)


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--max_restart", default=MAX_RESTART, show_default=True, type=click.IntRange(min=0))
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def _command(max_restart: int, command: tuple[str, ...]) -> int:
    """Run COMMAND as the process of a durable job that the environment describes, and start it again when it dies.

    It may die so often within ten minutes; one that ends with an error at once, three times in a row, is given up.
    """
    return keep(command, max_restart=max_restart)


def main(arguments: Sequence[str]) -> int:
    """`_command`; a mistake is one line and exit code 2."""
    show_logs(logging.INFO)
    try:
        code: int = _command.main(list(arguments), prog_name="python -m fleet.job", standalone_mode=False)
        return code
    except click.ClickException as error:
        error.show()
    except (UsageError, OSError) as error:
        print(f"fleet.job: {error}", file=sys.stderr)
    return 2
