"""The text of a file, as it is or through a command: standard input is the file, standard output what is read."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from fleet.errors import DeadlineError, UsageError

# How often a command that has closed its output is asked whether it has ended.
_ASK_EVERY_MS = 20
_LONGEST_LAST_WORDS = 4096


class Stopped(Exception):  # noqa: N818  not an error: nobody wants the rest any more
    """Raised in a thread that reads when it need not go on."""


class Stop:
    """A flag that can be waited for together with a pipe. It must be closed when nobody waits any more."""

    def __init__(self) -> None:
        self.fd, self._writer = os.pipe()  # its other end hangs up when the flag is set
        self.is_set = False

    def set(self) -> None:
        """Wake everybody."""
        if not self.is_set:
            self.is_set = True
            os.close(self._writer)

    def close(self) -> None:
        """Give the pipe back."""
        self.set()
        os.close(self.fd)


class ByteSource(Protocol):
    """Bytes to be read once, from the beginning."""

    def read_into(self, memory: memoryview) -> int:
        """Fill the beginning of the memory and return how much; 0 at the end, if all went well."""


@contextmanager
def opened(path: str, command: str, stop: Stop, timeout_s: float) -> Iterator[ByteSource]:
    """The text of a file. A command that is still running when the context is left is killed, with its children."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a named pipe would wait here for its writer
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; set_filelist() takes files of this machine") from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise UsageError(f"cannot read {path}: it is no regular file; let the pipe command read what is none")
        if command.strip() == "cat":
            yield _Plain(file, stop)
            return
        with _Piped(path, file, command, stop, timeout_s) as text:
            yield text
    finally:
        os.close(file)


class _Plain:
    """A file as it is."""

    def __init__(self, file: int, stop: Stop) -> None:
        self._file = file
        self._stop = stop

    def read_into(self, memory: memoryview) -> int:
        if self._stop.is_set:
            raise Stopped
        return os.readv(self._file, [memory])


class _Piped:
    """A command that reads a file. What it says on standard error goes to ours; its last line explains a failure."""

    def __init__(self, path: str, file: int, command: str, stop: Stop, timeout_s: float) -> None:
        self._path, self._command = path, command
        self._stop = stop
        self._timeout_s = timeout_s
        os.set_blocking(file, True)  # the command knows nothing of how it was opened
        # A group of its own: a shell's children can be ended with it.
        self._process = subprocess.Popen(
            command, shell=True, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._out, self._err = self._process.stdout.fileno(), self._process.stderr.fileno()
        os.set_blocking(self._err, False)
        self._last_words = b""
        self._poll = select.poll()
        for fd in (self._out, self._err, stop.fd):
            self._poll.register(fd, select.POLLIN)

    def __enter__(self) -> _Piped:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.returncode is None:  # not reaped yet, so the group's number is still its own
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()
        self._process.wait()

    def read_into(self, memory: memoryview) -> int:
        ready = self._wait(self._timeout_s * 1000, "wrote nothing")
        while self._out not in ready:
            ready = self._wait(self._timeout_s * 1000, "wrote nothing")
        count = os.readv(self._out, [memory])
        if count == 0:
            self._finish()
        return count

    def _wait(self, timeout_ms: float, what: str | None) -> set[int]:
        """Which pipes are ready; standard error is read at once. Without `what`, running out of time is no error."""
        ready = {fd for fd, _ in self._poll.poll(timeout_ms)}
        if self._stop.fd in ready:
            raise Stopped
        if self._err in ready:
            self._hear()
        if not ready and what is not None:
            raise DeadlineError(
                f"pipe_command {self._command!r} {what} for {self._timeout_s:g} s on {self._path}; mend it, or give it "
                "more time with pipe_timeout_s"
            )
        return ready

    def _hear(self) -> None:
        try:
            said = os.read(self._err, 65536)
        except BlockingIOError:
            return
        if not said:
            self._poll.unregister(self._err)
            return
        self._last_words = (self._last_words + said)[-_LONGEST_LAST_WORDS:]
        sys.stderr.write(said.decode(errors="replace"))

    def _finish(self) -> None:
        """Wait for the command, which has closed its output; a failure is an error."""
        self._poll.unregister(self._out)
        deadline = time.monotonic() + self._timeout_s
        while True:
            ended = self._process.poll() is not None
            ready = self._wait(0 if ended else _ASK_EVERY_MS, None)
            if ended and self._err not in ready:
                break
            if time.monotonic() > deadline:
                raise DeadlineError(
                    f"pipe_command {self._command!r} closed its output on {self._path} and had not ended "
                    f"{self._timeout_s:g} s later; let it end, or give it more time with pipe_timeout_s"
                )
        code = self._process.returncode
        if code == 0:
            return
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        said = self._last_words.decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(said) if line.strip()), "it said nothing on standard error")
        raise UsageError(f"pipe_command {self._command!r} failed on {self._path} with {how}: {last}")
