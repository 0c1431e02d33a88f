"""Who has come to a call of a world, for those who wait there: the members say through the store how far they are.

That costs nothing while calls follow each other quickly. A member says where it is when it comes late to a call, and
when it has waited for long. So whoever has waited for long, and a moment more, finds in the store everybody who has
come; who is not there has not.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

import torch.distributed as dist

from fleet.collective.stall.mailbox import Mailbox
from fleet.errors import CommunicationError
from fleet.observe.waits.waiting import Awaited, LongWait, members_awaited, notice_s

# Calls that follow each other within this part of the time after which a wait is told are quick.
_QUICK = 0.2


class Attendance:
    """The calls of one member of a world. Every member makes the same ones, in the same order."""

    def __init__(self, store: dist.Store, name: str, own: str, everybody: Sequence[str]) -> None:
        self._store = dist.PrefixStore(f"{name}/attendance", store)
        self._own = own
        self._everybody = everybody
        self._mailbox: Mailbox | None = None
        self._number = 0
        self._ended = time.monotonic()

    def close(self) -> None:
        """Nothing may be called afterwards."""
        if self._mailbox is not None:
            self._mailbox.close()

    def wait(self, is_done: Callable[[float], bool], call: str) -> None:
        """Return when `is_done`, which waits for so many seconds, is true; a long wait is told."""
        self._number += 1
        quick_s = _QUICK * notice_s()
        if time.monotonic() - self._ended > quick_s:
            self._say_here()
        with LongWait(self._own) as wait:
            if not is_done(wait.silent_s):
                self._say_here()
                limit_s = 1.5 * quick_s  # for those who came when we did
                while not is_done(limit_s):
                    wait.tell(self._awaited(call))
                    limit_s = wait.silent_s
        self._ended = time.monotonic()

    def _say_here(self) -> None:
        with contextlib.suppress(CommunicationError, OSError, RuntimeError):
            if self._mailbox is None:
                self._mailbox = Mailbox(self._store)
            self._mailbox.put(self._own, str(self._number))

    def _awaited(self, call: str) -> Awaited:
        try:
            if self._mailbox is None:
                raise CommunicationError("the store's host cannot be reached")
            at = self._mailbox.get_all(self._everybody)
        except CommunicationError:
            return Awaited(f"the others to come to {call}")
        missing = [one for one in self._everybody if int(at.get(one, "0")) < self._number]
        return members_awaited(missing, call) if missing else Awaited(f"{call}, to which everybody has come")
