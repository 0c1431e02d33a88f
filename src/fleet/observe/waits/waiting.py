"""Waiting has a voice: a wait that grows long is told, with who waits for whom and for what.

A process says it in its own log. Below fleetrun it also notes it (`wait_notes`), for as long as it waits, and the
launcher speaks for all processes of its machine (`fleet.launch.run.waits`).
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, replace
from typing import Final, Self

from fleet import env
from fleet.jobfiles.wait_notes import forget_wait, note_wait

NOTICE_S: Final = 10.0
# How long a look at what is missing is waited for that nobody needs any more.
_LAST_LOOK_S = 5.0

_log = logging.getLogger(__name__)
_purpose: ContextVar[str] = ContextVar("purpose", default="")

DEFAULT_TIMEOUT_S: Final = 600.0


def served_timeout_s() -> float:
    """In a job with servers.

    Who has set FLEET_STEP_TIMEOUT_S alone lets a step take as long as that says.
    """
    return env.FLEET_STALL_TIMEOUT_S.get() or max(DEFAULT_TIMEOUT_S, env.FLEET_STEP_TIMEOUT_S.get() or 0.0)


@dataclass(frozen=True)
class Awaited:
    """What somebody waits for: in words that follow `waits for`, and the workers that it must come from."""

    what: str
    workers: tuple[int, ...] = ()
    server: str = ""
    """The endpoint of the server that owes an answer, where it is one."""
    is_limited: bool = False
    """Whether whoever waits has signs of life to go by, or a limit of its own: then it is never a stall."""


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


def members_awaited(missing: Sequence[str], what: str) -> Awaited:
    """The members of a job, such as `worker 1` and `server 0`, that have not come to `what`."""
    workers = tuple(int(one.removeprefix("worker ")) for one in missing if one.startswith("worker "))
    names = workers_text(workers) if len(workers) == len(missing) else ", ".join(missing)
    return Awaited(f"{names} to come to {what}", workers)


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
        self._started = self.sign_at = time.monotonic()
        """`sign_at`: when it began, or when those it waits for last gave a sign of being at work."""
        self.awaited = Awaited("")
        """What was told last."""
        self._first_s = min(notice_s(), served_timeout_s() / 2)
        self._next_s = self._log_s = self._first_s

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
            awaited = replace(awaited, what=f"{awaited.what}, in {call}")
        self.awaited = awaited
        _present[id(self)] = self
        if waited_s >= self._log_s:
            _log.warning("%s", waiting_text(self._who, awaited.what, waited_s))
            self._log_s = 2 * waited_s
        self._next_s = waited_s + self._first_s
        note_wait(self, awaited.what, awaited.workers, waited_s)

    def signed(self) -> None:
        """Whoever is waited for is at work: how long they may take is counted from now on."""
        self.sign_at = time.monotonic()

    def end(self) -> None:
        """Stop waiting; idempotent."""
        _present.pop(id(self), None)
        forget_wait(self)


_present: dict[int, LongWait] = {}
"""The waits of this process that were told and are not over, by their id()."""


def present_waits() -> list[LongWait]:
    """The long waits of this process, the oldest first."""
    return sorted(_present.copy().values(), key=lambda wait: wait.sign_at)


@contextlib.contextmanager
def told_meanwhile(who: str, look: Callable[[], Awaited | None]) -> Iterator[None]:
    """For a block that waits and cannot be woken: a thread tells what `look`, which it calls, finds to be missing."""
    is_over = threading.Event()

    def tell() -> None:
        with LongWait(who) as wait:
            while not is_over.wait(wait.silent_s):
                found = look()
                if found is not None and not is_over.is_set():
                    wait.tell(found)

    thread = threading.Thread(target=copy_context().run, args=(tell,), name="fleet-wait", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(_LAST_LOOK_S)
