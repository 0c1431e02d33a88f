"""What one worker knows of itself when a collective stalls, as data that travels to the others."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from fleet.collective.stall.flight import Operation
from fleet.observe.stall.whereabouts import whereabouts
from fleet.observe.stall.words import Located, Noticed


@dataclass(frozen=True)
class Stall(Noticed):
    """A collective that waits, in one group: what the report is about. The same on every worker.

    `number` is 0 where torch's recorder has forgotten the operation.
    """

    backend: str
    group: str
    group_title: str
    members: tuple[int, ...]
    number: int
    title: str
    worker: int
    waited_s: float

    def is_same(self, other: Stall) -> bool:
        """Whether both mean one operation, whoever noticed it."""
        return (self.backend, self.group, self.number) == (other.backend, other.group, other.number)


@dataclass(frozen=True)
class State(Located):
    """Where one worker is, seen from a stall.

    `reached` and `reached_title` are the last collective it enqueued in the stalled group, `own_title` the one that it
    has under the stalled number, `waits_in` what it waits for itself, in whichever group.
    """

    worker: int
    host: str
    pid: int
    reached: int = 0
    reached_title: str = ""
    own_title: str = ""
    waits_in: str = ""
    quiet_s: float = 0.0
    where: str = ""
    stack: tuple[str, ...] = ()


def look_around(
    worker: int, stall: Stall, found: Iterable[Operation], waiting: Operation | None, quiet_s: float
) -> State:
    """The state of this process. `waiting` is what it waits for itself."""
    here = [one for one in found if (one.backend, one.group) == (stall.backend, stall.group)]
    last = max(here, key=lambda one: one.number, default=None)
    own = next((one for one in here if one.number == stall.number), None)
    stack, where = whereabouts(None if waiting is None else waiting.thread)
    return State(
        worker=worker,
        host=socket.gethostname(),
        pid=os.getpid(),
        reached=0 if last is None else last.number,
        reached_title="" if last is None else last.title,
        own_title="" if own is None else own.title,
        waits_in="" if waiting is None else waiting.title,
        quiet_s=quiet_s,
        where=where,
        stack=stack,
    )
