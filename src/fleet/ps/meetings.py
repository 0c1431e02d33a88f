"""Meetings of workers on a server: each says something, and learns what the others have said, or who has not come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from fleet.errors import UsageError
from fleet.ps import presence
from fleet.ps.proto import ps_pb2

# How many meetings are remembered, so that an answer that was lost can be asked for again; and how much one may say.
NUM_KEPT = 256
NUM_NEWEST = 8
MAX_KEPT = 64 << 20
MAX_NAME = 1000
MAX_TEXT = 16 << 20


@dataclass
class Meeting:
    """Who has come, with what each said."""

    texts: dict[int, str] = field(default_factory=dict)
    signs: int = 0
    """How often somebody has come, or said that it is at work."""

    def missing(self, awaited: Collection[int]) -> list[int]:
        """Those of the awaited who have not come."""
        return sorted(set(awaited) - self.texts.keys())


class Meetings:
    """The meetings of a job, by name. `changed` is the server's lock, which is notified of everything that happens.

    `is_durable`: workers are started again alone. What a worker said then counts in all its lives, since others may
    have been told: the next life makes the same calls, and is told what the former was.
    """

    def __init__(self, changed: threading.Condition, *, is_durable: bool = False) -> None:
        self._changed = changed
        self._is_durable = is_durable
        self._meetings: dict[str, Meeting] = {}
        self._num_waiting = 0

    def answer(
        self, header: ps_pb2.MeetRequest.Header, num_workers: int, elsewhere: Callable[[list[int]], list[int]]
    ) -> ps_pb2.MeetReply.Header:
        """Note who calls, and wait: for all that it waits for, for one that will not come, or until its time is over.

        `elsewhere` says which of the missing will not come.
        """
        meeting = self._come(header.name, header.caller.worker, header.text if header.is_here else None)
        awaited = set(header.others or range(num_workers))
        if odd := sorted(awaited - set(range(num_workers))):
            raise UsageError(f"worker {odd[0]} does not exist in a job of {num_workers} workers")
        with self._changed:
            self._num_waiting += 1
            try:
                presence.wait_for(
                    self._changed,
                    lambda: not (missing := meeting.missing(awaited)) or bool(elsewhere(missing)),
                    header.timeout_ms / 1000,
                )
            finally:
                self._num_waiting -= 1
            missing = meeting.missing(awaited)
            return ps_pb2.MeetReply.Header(
                is_complete=not missing,
                texts=[] if missing else [meeting.texts.get(worker, "") for worker in range(num_workers)],
                missing=missing,
                elsewhere=elsewhere(missing),
                signs=meeting.signs,
            )

    def _come(self, name: str, worker: int, text: str | None) -> Meeting:
        """Note that a worker has come and what it says, or, with None, that it is at work elsewhere."""
        if len(name) > MAX_NAME or len(text or "") > MAX_TEXT:
            raise UsageError(f"a meeting's name has up to {MAX_NAME} letters, and a text up to {MAX_TEXT}")
        with self._changed:
            meeting = self._meetings.setdefault(name, Meeting())
            meeting.signs += text is None or worker not in meeting.texts  # not if it only asks again
            if text is not None and not (self._is_durable and worker in meeting.texts):
                meeting.texts[worker] = text
            while self._is_full():
                del self._meetings[next(iter(self._meetings))]
            self._changed.notify_all()
            return meeting

    def _is_full(self) -> bool:
        """Whether the oldest meeting is to be forgotten; the newest stay, however much was said there."""
        size = sum(len(text) for meeting in self._meetings.values() for text in meeting.texts.values())
        return len(self._meetings) > (NUM_KEPT if size <= MAX_KEPT else NUM_NEWEST)

    def has_said(self, name: str, worker: int, text: str) -> bool:
        """Whether a worker has come to a meeting, and what it says now changes nothing."""
        with self._changed:
            meeting = self._meetings.get(name)
            said = None if meeting is None else meeting.texts.get(worker)
            return said == text or (self._is_durable and said is not None)

    def come(self, name: str, worker: int, text: str) -> None:
        """A worker has come to a meeting."""
        self._come(name, worker, text)

    def to_json(self) -> list[tuple[str, dict[str, str]]]:
        """For a snapshot."""
        with self._changed:
            return [
                (name, {str(worker): text for worker, text in meeting.texts.items()})
                for name, meeting in self._meetings.items()
            ]

    def restore(self, saved: list[tuple[str, dict[str, str]]]) -> None:
        """Go on as a snapshot says."""
        with self._changed:
            self._meetings = {
                name: Meeting({int(worker): text for worker, text in texts.items()}) for name, texts in saved
            }

    def notice(self) -> None:
        """Have those who wait look again: a worker has done something else; the caller locks."""
        if self._num_waiting:
            self._changed.notify_all()

    def forget(self, worker: int) -> None:
        """A worker has begun a new life: what it said before does not count, but in a durable job; the caller locks."""
        for meeting in () if self._is_durable else self._meetings.values():
            meeting.texts.pop(worker, None)
