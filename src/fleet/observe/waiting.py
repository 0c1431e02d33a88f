"""Waiting has a voice: a wait that grows long is told, with who waits for whom and for what.

A process says it in its own log. Below fleetrun it also notes what it waits for in a file, for as long as it does, from
which the launcher speaks for all processes of its machine (`fleet.launch.waits`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Final, Self

from fleet import env

NOTICE_S: Final = 10.0

_log = logging.getLogger(__name__)
_purpose: ContextVar[str] = ContextVar("purpose", default="")


@dataclass(frozen=True)
class Awaited:
    """What somebody waits for: in words that follow `waits for`, and the workers that it must come from."""

    what: str
    workers: tuple[int, ...] = ()


def notice_s() -> float:
    """Seconds of waiting before it is told, and again after twice that, and so on."""
    return env.FLEET_WAIT_NOTICE_S.get() or NOTICE_S


def workers_text(workers: Sequence[int]) -> str:
    """`worker 1`, `workers 1, 2 and 7`, `workers 1, 2, 3, 4, 5, 6 and 12 more`."""
    shown = [str(one) for one in workers[:6]]
    if len(workers) > 7:
        shown.append(f"{len(workers) - 6} more")
    elif len(workers) == 7:
        shown.append(str(workers[6]))
    return f"worker {shown[0]}" if len(shown) == 1 else f"workers {', '.join(shown[:-1])} and {shown[-1]}"


def waiting_text(who: str, awaited: str, waited_s: float, *, are_many: bool = False) -> str:
    """`worker 0 waits for the gradients of worker 1, step 120; 10 s so far`."""
    return f"{who} wait{'' if are_many else 's'} for {awaited}; {waited_s:.0f} s so far"


@contextlib.contextmanager
def waiting_in(call: str) -> Iterator[None]:
    """Waits of this block are told as waits in this call of the user's."""
    token = _purpose.set(call)
    try:
        yield
    finally:
        _purpose.reset(token)


class LongWait:
    """One wait of one process, from its making to `end`, or to the end of a `with`.

    Whoever waits does so for at most `silent_s` at a time, and then says with `tell` what it still waits for. That is
    noted each time, and logged when the wait has grown to twice what it was.
    """

    def __init__(self, who: str) -> None:
        self._who = who
        self._started = time.monotonic()
        self._first_s = notice_s()
        self._next_s = self._log_s = self._first_s
        self._is_noted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def waited_s(self) -> float:
        """How long it has waited."""
        return time.monotonic() - self._started

    @property
    def silent_s(self) -> float:
        """How long it may go on before `tell` is called again."""
        return max(0.0, self._next_s - self.waited_s)

    @property
    def is_due(self) -> bool:
        """Whether `tell` is to be called."""
        return self.waited_s >= self._next_s

    def tell(self, awaited: Awaited) -> None:
        """Say what is waited for."""
        waited_s = self.waited_s
        if call := _purpose.get():
            awaited = Awaited(f"{awaited.what}, in {call}", awaited.workers)
        if waited_s >= self._log_s:
            _log.warning("%s", waiting_text(self._who, awaited.what, waited_s))
            self._log_s = 2 * waited_s
        self._next_s = waited_s + self._first_s
        self._is_noted = True
        note_wait(self, awaited, waited_s)

    def end(self) -> None:
        """It waits no more."""
        if self._is_noted:
            self._is_noted = False
            forget_wait(self)


@dataclass(frozen=True)
class WaitNote:
    """A wait as the launcher reads it; moments are in seconds since 1970."""

    what: str
    workers: tuple[int, ...]
    since: float
    noted_at: float


class _Notes:
    """The file that holds what this process waits for, replaced whenever that changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: dict[int, WaitNote] = {}

    def put(self, key: int, wait: WaitNote) -> None:
        with self._lock:
            self._waits[key] = wait
            self._write()

    def drop(self, key: int) -> None:
        with self._lock:
            self._waits.pop(key, None)
            self._write()

    def _write(self) -> None:
        path = env.FLEET_NOTE_FILE.get()
        if path is None:
            return
        new = f"{path}.waits.{os.getpid()}"
        with contextlib.suppress(OSError):  # no room on the disk: the log has it
            with open(new, "w") as file:
                json.dump([asdict(wait) for wait in self._waits.values()], file)
            os.replace(new, waits_file(path))


_notes = _Notes()


def note_wait(waiter: object, awaited: Awaited, waited_s: float) -> None:
    """Let fleetrun know what somebody in this process waits for."""
    now = time.time()
    _notes.put(id(waiter), WaitNote(awaited.what, awaited.workers, now - waited_s, now))


def forget_wait(waiter: object) -> None:
    """Let fleetrun know that it waits no more."""
    _notes.drop(id(waiter))


def waits_file(notes: str | os.PathLike[str]) -> str:
    """Where the process whose FLEET_NOTE_FILE is `notes` says what it waits for."""
    return f"{os.fspath(notes)}.waits"


def read_waits(path: str) -> list[WaitNote]:
    """What a process waits for; nothing if it never waited long, or its file cannot be read."""
    try:
        with open(path) as file:
            found = json.load(file)
        return [
            WaitNote(one["what"], tuple(one["workers"]), float(one["since"]), float(one["noted_at"])) for one in found
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []
