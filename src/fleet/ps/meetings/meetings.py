"""Meetings of workers on a server: each says something, and learns what the others have said, or who has not come."""

import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field

from fleet.errors import FleetError, UsageError
from fleet.ps.meetings.waiting import CallVisit, Elsewhere, Party, SharedAnswer, ThreadVisit, Visit
from fleet.ps.proto import ps_pb2
from fleet.ps.wire import callers

# How many meetings are remembered, so that an answer that was lost can be asked for again; and how much one may say.
NUM_KEPT = 256
NUM_NEWEST = 8
MAX_KEPT = 64 << 20
MAX_NAME = 1000
MAX_TEXT = 16 << 20
# How many may wait in threads, which other calls need too. Those beyond count as here, and are told at once who is not.
MAX_THREADS = 512


@dataclass
class Meeting:
    """Who has come, with what each said, and who waits."""

    texts: dict[int, str] = field(default_factory=dict)
    signs: int = 0
    """How often somebody has come, or said that it is at work."""
    parties: dict[tuple[frozenset[int], bool], Party] = field(default_factory=dict)
    """By the workers that they wait for, and whether they wait between steps."""
    told: SharedAnswer | None = None
    """The answer once nobody is missing; None: it has yet to be made."""


class Meetings:
    """The meetings of a job, by name. `lock` is the server's.

    `is_durable`: workers are started again alone. What a worker said then counts in all its lives, since others may
    have been told: the next life makes the same calls, and is told what the former was.
    """

    def __init__(self, lock: threading.RLock, *, is_durable: bool = False) -> None:
        self._lock = lock
        self._is_durable = is_durable
        self._meetings: dict[str, Meeting] = {}
        self._size = 0  # letters of all that was said
        self._waiting: dict[int, tuple[Visit, Meeting, Party]] = {}  # by the number of the visit
        self._parties: set[Party] = set()  # with somebody who waits
        self._num_visits = 0
        self._num_threads = 0
        self._everybody: frozenset[int] = frozenset()

    def answer(
        self, header: ps_pb2.MeetRequest.Header, num_workers: int, elsewhere: Elsewhere
    ) -> ps_pb2.MeetReply.Header:
        """Note who calls, and wait: for all that it waits for, for one who will not come, or until time is over."""
        with self._lock:
            visit = ThreadVisit(header, num_workers, elsewhere, self._lock)
            if self._enter(visit) and self._num_threads < MAX_THREADS:
                self._num_threads += 1
                try:
                    callers.wait_for(visit.changed, lambda: not self._goes_on(visit), header.timeout_ms / 1000)
                except BaseException:
                    self.forget_visit(visit.number)
                    raise
                finally:
                    self._num_threads -= 1
            return self._end(visit).header

    def visit(self, visit: CallVisit) -> bool:
        """Do the same for a call that native code keeps: whether it waits; otherwise it has been answered."""
        with self._lock:
            if self._enter(visit):
                return True
            self._end(visit)
            return False

    def goes_on(self, number: int, *, is_late: bool = False) -> bool:
        """Whether a call waits on; otherwise it has been answered, for its time is over or others will not come."""
        with self._lock:
            if number not in self._waiting:
                return False
            visit = self._waiting[number][0]
            if not is_late and self._goes_on(visit):
                return True
            self._end(visit)
            return False

    def forget_visit(self, number: int) -> None:
        """Let a visit wait no longer, without an answer; idempotent."""
        with self._lock:
            if (found := self._waiting.pop(number, None)) is not None:
                visit, meeting, party = found
                party.remove(visit)
                if not party:
                    self._parties.discard(party)
                    meeting.parties = {key: one for key, one in meeting.parties.items() if one}

    def look(self, whom: int) -> None:
        """Have calls of a worker that wait in threads look again; below 0, calls of all. The caller locks."""
        for party in self._parties:
            for visit in party if whom < 0 else party.of(whom):
                visit.look()

    def notice(self, worker: int) -> None:
        """A worker has made a step: those between steps that wait for it wait in vain. The caller locks."""
        for party in list(self._parties):
            if party.is_between_steps and worker in party.missing:
                for visit in party:
                    if not self._goes_on(visit):
                        self._end(visit)

    def _enter(self, visit: Visit) -> bool:
        """Note who calls; whether it has to wait."""
        header = visit.header
        meeting = self._come(header.name, visit.worker, header.text if header.is_here else None)
        awaited = self._awaited(header.others, visit.num_workers)
        key = awaited, header.is_between_steps
        party = meeting.parties.get(key)
        if party is None:
            party = Party(set(awaited - meeting.texts.keys()), is_between_steps=header.is_between_steps)
        self._num_visits += 1
        visit.number = self._num_visits
        self._waiting[visit.number] = visit, meeting, party
        try:
            if not self._goes_on(visit) or not header.timeout_ms:
                return False
        except BaseException:
            del self._waiting[visit.number]
            raise
        meeting.parties[key] = party
        self._parties.add(party)
        for gone in party.add(visit):
            self._waiting.pop(gone.number, None)
        return True

    def _awaited(self, others: Collection[int], num_workers: int) -> frozenset[int]:
        """Whom a call waits for: some, or everybody, which is one shared set."""
        if len(self._everybody) != num_workers:
            self._everybody = frozenset(range(num_workers))
        if odd := sorted(one for one in others if one >= num_workers):
            raise UsageError(f"worker {odd[0]} does not exist in a job of {num_workers} workers")
        return frozenset(others) or self._everybody

    def _goes_on(self, visit: Visit) -> bool:
        """Whether a call still has to wait; raises where it may not."""
        if visit.number not in self._waiting:
            return False
        missing = self._waiting[visit.number][2].missing
        return bool(missing) and not visit.elsewhere(missing)

    def _end(self, visit: Visit) -> SharedAnswer:
        """End a wait with its answer: all that was said, or who has not come."""
        if (found := self._waiting.get(visit.number)) is not None:
            _, meeting, party = found
            self.forget_visit(visit.number)
            elsewhere = visit.elsewhere(party.missing)  # raises where the caller may not know
            visit.tell(self._not_yet(meeting, party, elsewhere) if party.missing else self._complete(visit, meeting))
        assert visit.told is not None
        return visit.told

    def _not_yet(self, meeting: Meeting, party: Party, elsewhere: list[int]) -> SharedAnswer:
        header = ps_pb2.MeetReply.Header(missing=sorted(party.missing), elsewhere=elsewhere, signs=meeting.signs)
        return SharedAnswer(header)

    def _complete(self, visit: Visit, meeting: Meeting) -> SharedAnswer:
        if meeting.told is None or len(meeting.told.header.texts) != visit.num_workers:
            texts = [meeting.texts.get(worker, "") for worker in range(visit.num_workers)]
            meeting.told = SharedAnswer(ps_pb2.MeetReply.Header(is_complete=True, texts=texts, signs=meeting.signs))
        return meeting.told

    def _come(self, name: str, worker: int, text: str | None) -> Meeting:
        """Note that a worker has come and what it says, or, with None, that it is at work elsewhere."""
        if len(name) > MAX_NAME or len(text or "") > MAX_TEXT:
            raise UsageError(f"a meeting's name has up to {MAX_NAME} letters, and a text up to {MAX_TEXT}")
        with self._lock:
            meeting = self._meetings.setdefault(name, Meeting())
            said = meeting.texts.get(worker)
            if text is None or said is None:  # not if it only asks again
                meeting.signs, meeting.told = meeting.signs + 1, None
            if text is not None and not (self._is_durable and said is not None):
                self._size += len(text) - len(said or "")
                meeting.texts[worker] = text
                if text != said:
                    meeting.told = None
                    self._arrive(meeting, worker)
            while len(self._meetings) > (NUM_KEPT if self._size <= MAX_KEPT else NUM_NEWEST):
                self._size -= _num_letters(self._meetings.pop(next(iter(self._meetings))))
            return meeting

    def _arrive(self, meeting: Meeting, worker: int) -> None:
        """Answer those that waited for this worker, if they wait for nobody now."""
        for party in list(meeting.parties.values()):
            party.missing.discard(worker)
            for visit in () if party.missing else party:
                with suppress(FleetError):  # the next look at it says why
                    visit.elsewhere(party.missing)
                    self._end(visit)

    def has_said(self, name: str, worker: int, text: str) -> bool:
        """Whether a worker has come to a meeting, and what it says now changes nothing."""
        with self._lock:
            meeting = self._meetings.get(name)
            said = None if meeting is None else meeting.texts.get(worker)
            return said == text or (self._is_durable and said is not None)

    def come(self, name: str, worker: int, text: str) -> None:
        """A worker has come to a meeting."""
        self._come(name, worker, text)

    def to_json(self) -> list[tuple[str, dict[str, str]]]:
        """For a snapshot."""
        with self._lock:
            return [
                (name, {str(worker): text for worker, text in meeting.texts.items()})
                for name, meeting in self._meetings.items()
            ]

    def restore(self, saved: list[tuple[str, dict[str, str]]]) -> None:
        """Go on as a snapshot says."""
        with self._lock:
            self._meetings = {
                name: Meeting({int(worker): text for worker, text in texts.items()}) for name, texts in saved
            }
            self._size = sum(map(_num_letters, self._meetings.values()))

    def forget(self, worker: int) -> None:
        """A worker begins a new life: what it said before does not count, except in a durable job. The caller locks."""
        for meeting in () if self._is_durable else self._meetings.values():
            if (said := meeting.texts.pop(worker, None)) is not None:
                self._size -= len(said)
                meeting.told = None
                for (awaited, _), party in meeting.parties.items():
                    party.missing |= awaited & {worker}


def _num_letters(meeting: Meeting) -> int:
    return sum(map(len, meeting.texts.values()))
