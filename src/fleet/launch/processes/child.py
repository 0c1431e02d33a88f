"""One started process: a session of its own, dead with its launcher, its exit noticed the moment it happens."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable

from fleet import env
from fleet.job.keeper import dying_with_launcher as dying_with_launcher
from fleet.jobfiles.copy_notes import CopylessNote, CopyNote, copy_note, copyless_note
from fleet.jobfiles.ending import EndNote, read_end
from fleet.jobfiles.joining import joined_since
from fleet.jobfiles.process_files import ProcessFiles
from fleet.jobfiles.serving import serving_since
from fleet.jobfiles.wait_notes import WaitNote, read_waits
from fleet.launch.processes.logs import JobIdentity, ReadyProcess
from fleet.launch.processes.spare import Spare


class Child:
    """A running process. Its zombie is kept until `reap()`, so that its process group cannot be somebody else's."""

    def __init__(
        self,
        ready: ReadyProcess,
        job: JobIdentity,
        terminal_width: int | None = None,
        life: int = 0,
        spare: Spare | None = None,
    ) -> None:
        """Start it, or have a spare become it; OSError if that cannot be done."""
        self.plan = plan = ready.plan
        self.life = life
        """How often a process was started in this place before."""
        self.log_from = os.fstat(ready.log).st_size
        """Where what it writes to its log begins."""
        self.started_at = time.time()
        self.exited_at: float | None = None
        self.status: int | None = None
        """Return code as subprocess gives it (-n for signal n); None while it runs."""
        self.was_told_to_stop = False
        self._files = ProcessFiles.beside(plan.log_path)
        self._files.remove()  # of another job, whose launcher was killed
        self._waiter: threading.Thread | None = None
        self._is_reaped = False
        environ = env.without_roles(env.inherited()) | plan.variables
        environ |= {
            env.FLEET_JOB_ID.name: job.job_id,
            env.FLEET_JOB_TOKEN.name: job.token,
            env.FLEET_RESTART.name: str(job.restart),
            env.FLEET_LIFE.name: str(life),
            env.FLEET_NOTE_FILE.name: self.notes,
            "PYTHONUNBUFFERED": "1",
        }
        if terminal_width is not None:
            environ[env.FLEET_TERMINAL_WIDTH.name] = str(terminal_width)
        if spare is not None:
            self._process = spare.become(plan.command, environ, plan.log_path)
        else:
            self._process = subprocess.Popen(
                plan.command,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=ready.log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=() if ready.lock is None else (ready.lock,),
                preexec_fn=dying_with_launcher(),
            )
        self.pid = self._process.pid

    def when_it_exits(self, tell: Callable[[Child], None]) -> None:
        """Call `tell(self)` from a thread once the process has exited.

        Called after all children have started: a fork from a process with threads is asking for trouble. Where one is
        started again there is no other way; `die_with_launcher` takes no lock that another thread could have had.
        """
        self._waiter = threading.Thread(target=self._wait, args=(tell,), name=f"wait-{self.pid}", daemon=True)
        self._waiter.start()

    def _wait(self, tell: Callable[[Child], None]) -> None:
        result = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        assert result is not None
        self.exited_at = time.time()
        self.status = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
        tell(self)

    @property
    def name(self) -> str:
        """`worker 0`, `server 3`."""
        return self.plan.name

    @property
    def role(self) -> str:
        """`worker`, `server` or `copy`, as it is planned now."""
        return self.plan.role

    @property
    def is_running(self) -> bool:
        """Whether no exit has been noticed yet."""
        return self.status is None

    @property
    def has_failed(self) -> bool:
        """Whether it ended with an error that nobody asked for."""
        return self.status not in (None, 0) and not self.was_told_to_stop

    @property
    def noted_at(self) -> float | None:
        """When it raised or began to exit, if it told."""
        noted = self._end_note()
        return None if noted is None else noted.time

    @property
    def was_refused(self) -> bool:
        """Whether a worker has ended with an error of usage, or over a state that does not fit, before it began."""
        noted = self._end_note()
        return noted is not None and noted.is_refusal

    def _end_note(self) -> EndNote | None:
        return read_end(self._files.end(self.pid))

    @property
    def notes(self) -> str:
        """The FLEET_NOTE_FILE of the process, which its own children inherit."""
        return str(self._files.note)

    def waits(self) -> list[WaitNote]:
        """What it has waited for a long time for, and still does."""
        return read_waits(self._files.waits)

    @property
    def is_unstopped(self) -> bool:
        """Whether it has joined its servers and not called `fleet.stop_worker()`."""
        return joined_since(self._files.unstopped) is not None

    @property
    def back_at(self) -> float | None:
        """When a server began to serve, or a worker had joined its servers; None before, and after it has left them."""
        if self.plan.role == "server":
            return serving_since(self._files.serving)
        return joined_since(self._files.unstopped)

    @property
    def copy_note(self) -> CopyNote | None:
        """What it says of itself as a copy of a server."""
        return copy_note(self._files.copy)

    @property
    def copyless_note(self) -> CopylessNote | None:
        """What a server says that waits for its copy in vain."""
        return copyless_note(self._files.copyless)

    @property
    def is_leaving(self) -> bool:
        """Whether it has begun to end, or has ended without our thread having come to say so."""
        return self.is_running and (self._files.end(self.pid).exists() or self._has_exited())

    def _has_exited(self) -> bool:
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:  # reaped
            return True

    def signal(self, number: int) -> None:
        """Send a signal to the process and everything in its group."""
        self.was_told_to_stop = self.was_told_to_stop or self.is_running
        if self._is_reaped:  # its id may be somebody else's
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def tell(self, number: int) -> None:
        """Send a signal to the process alone, which it has a use for: whatever else it does is still looked at."""
        if self.is_running and not self._is_reaped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def reap(self) -> None:
        """End what is left of its group, release its process id, remove its notes."""
        if self._is_reaped:
            return
        self._is_reaped = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        if self._waiter is not None:
            self._waiter.join()
        self._files.remove()
