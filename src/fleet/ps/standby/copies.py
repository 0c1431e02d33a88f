"""A server's side of its second copy: gives it what it asks for, knows what it has, and waits for it.

The copy is filled while training goes on, and nobody waits for it. Once it has nearly everything the server is bound to
it: nothing is acknowledged from then on before the copy has it (with `--standby sync`), and the copy is told that it is
whole, in the present term. Only then may the next term list it. So a server that was bound stays so until it sees a
term, later than the last in which it has said "whole", that does not list its copy: that copy can never take its place.
Its next life knows of that term from a file beside the journal.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.errors import CommunicationError, UsageError
from fleet.jobfiles import whole
from fleet.jobfiles.copy_notes import note_copyless
from fleet.jobfiles.terms import Term
from fleet.observe.waits.waiting import Awaited, LongWait
from fleet.ps.durable.durability import Copied, Durability
from fleet.ps.job.patience import longest_wait_s
from fleet.ps.journal.files import PROMISE_NAME, segment_path, segments_in
from fleet.ps.proto import ps_pb2
from fleet.ps.standby.fills import files_to_begin_with, path_of, read_some
from fleet.ps.standby.standing import Standing
from fleet.ps.wire import callers
from fleet.ps.wire.messages import Tensors

if TYPE_CHECKING:
    from fleet._native import PlaneCall
    from fleet.ps.steps.core import Core

MOST_BYTES = 8 << 20
"""The size of one answer."""
NEAR_RECORDS = 256
"""A copy that lacks no more than these is waited for from then on."""
NEAR_BYTES = 4 << 20
SILENT_S = 1.0
"""How long a copy may say nothing, while the server waits for it, before fleetrun is told; a slow one has longer."""
SLOW_S = 5.0
AWAY_S = 10.0
"""After so long without a word nothing is kept for a copy any more."""
_LOOK_S, _ALL, _UNAVAILABLE = 0.05, 2**64 - 1, 14

Reply = ps_pb2.FollowReply.Header


class Copies(Copied):
    """What a server knows of its copy. Called from many threads."""

    def __init__(self, core: Core, durability: Durability, standing: Standing) -> None:
        self._core, self._journal, self._folder = core, durability.journal, durability.folder
        self._hurry = durability.scrub.hurry
        self._standing, self._server = standing, standing.server
        self._changed = threading.Condition()
        self._promise = self._folder / PROMISE_NAME
        self._confirmed = (whole.read(self._promise) or {}).get("term", 0)
        """The last term in which a copy was told that it is whole, also by a former life of this server."""
        self.is_bound = standing.has_copy or self._confirmed >= standing.number
        """Whether a copy is, or may be by now, listed in a term."""
        self._num_freed = 0
        """How often it was bound and is so no longer."""
        self._copy = self._read_by = self._filled = 0
        """The copy that called last, the one that has read records in the life of this process, the one filled last."""
        self._has = 0
        """The last record that the copy has."""
        self._given = (0, 0, 0)
        """The copy that got bytes of the journal last, with segment and place."""
        self._told = (0, 0)
        """The copy that was told last that it is whole, and the term."""
        self._whole_at = 0
        """The record with which it is whole; before that nobody has waited for it."""
        self._replaced_at = 0
        self._needs: int | None = None
        self._fills = False
        self._asked_at = -AWAY_S
        self._behind_since: float | None = None
        self._held: PlaneCall | None = None
        """The copy's call, while there is nothing to say."""
        self.lost = ""
        """Why this server must not go on: its copy has more than it, or rows that are lost here."""

    @property
    def is_filling(self) -> bool:  # type: ignore[override]
        """Whether the copy reads the newest snapshot."""
        return self._fills and time.monotonic() - self._asked_at < AWAY_S

    @property
    def needs(self) -> int | None:  # type: ignore[override]
        """The segment that the copy reads; None where there is no copy."""
        return self._needs if self.is_bound or time.monotonic() - self._asked_at < AWAY_S else None

    def recorded(self, lsn: int, *, waits: bool) -> None:
        with self._changed:
            if self._behind_since is None:
                self._behind_since = time.monotonic()
            held, self._held = self._held, None
            self._changed.notify_all()
        if held is not None:
            self.follow(held)
        if waits:
            self.wait(lsn)

    @property
    def awaited(self) -> int:  # type: ignore[override]
        """The last record, where the copy must have it."""
        with self._changed:
            return self._journal.lsn if self.is_bound and self._standing.is_sync else 0

    def wait(self, lsn: int) -> None:
        why = ""
        with self._changed:
            if self.awaited:
                why = self._wait(lambda: self._has >= lsn, f"its copy to have record {lsn}")
        self._fail(why)

    def replaced(self, lsn: int) -> None:
        why = ""
        with self._changed:
            self._replaced_at, self._filled = lsn, 0
            if self.is_bound:
                why = "a checkpoint was loaded, with which the copy is filled anew"
                note_copyless(self._server, self._standing.number, why)
                what = "fleetrun to count without its copy, which a loaded checkpoint fills anew"
                why = self._wait(lambda: False, what)
        self._fail(why)

    def pass_on(self, segment: int) -> None:
        with self._changed:
            self._changed.notify_all()
            self._changed.wait_for(lambda: (self.needs or segment) >= segment or self._core.is_closed, SILENT_S)

    def give_way(self, why: str) -> bool:
        if not self._standing.has_copy:
            return False
        self.lost = f"{why}; the copy of server {self._server} is to take its place"
        self.look()
        return True

    @property
    def lag(self) -> tuple[int, float]:
        """How many records the copy lacks, and for how many seconds it has got none; of all where there is none."""
        with self._changed:
            behind_s = 0.0 if self._behind_since is None else time.monotonic() - self._behind_since
            return self._journal.lsn - self._has, behind_s

    def look(self) -> None:
        """There is a new term, or the server stops: let those who wait see it."""
        with self._changed:
            self._look()
            self._changed.notify_all()

    def _look(self) -> Term:
        """Be free of a copy that the present term does not list, unless it has been told in it that it is whole."""
        term = self._standing.term
        if not self.is_bound and term.copies[self._server]:
            self._bind()
        if self.is_bound and term.number > self._confirmed and not term.copies[self._server]:
            self.is_bound = False
            self._num_freed += 1
            self._core.copied(_ALL)
        return term

    def _bind(self) -> None:
        self._core.copied(self._has)
        self.is_bound, self._whole_at = True, self._journal.lsn

    def tend(self) -> None:
        """Say so where the copy is late, on behalf of calls that wait without a thread."""
        why = ""
        with self._changed:
            if self.awaited > self._has and self._behind_since is not None:
                why = self._look_out(self._behind_since, "its copy")
        with contextlib.suppress(CommunicationError):
            self._fail(why)

    def answer(self, header: ps_pb2.FollowRequest.Header, _: Tensors) -> tuple[Reply, Tensors]:
        """Answer a call of `Follow`."""
        if header.server != self._server:
            raise UsageError(
                f"this is server {self._server}, and the copy is one of server {header.server}; give every "
                "process an endpoint of its own"
            )
        with self._changed:
            self._look()
            self._asked_at = time.monotonic()
            if header.is_empty:
                if self._filled == header.copy:  # what it was given has a gap, or is damaged
                    self._hurry()
                self._filled = header.copy
                self._core.copied(0 if self.is_bound else _ALL)
                self._copy, self._has, self._whole_at, self._fills = header.copy, 0, self._journal.lsn, True
                self._needs, files = files_to_begin_with(self._folder, self._hurry)
                return self._said(Reply(segment=self._needs, files=files)), ()
        if header.file:
            return self._with(path_of(self._folder, header.file), header.at, MOST_BYTES, self._said(Reply()))
        return self._records(header) or (Reply(), ())

    def follow(self, call: PlaneCall, *, is_late: bool = False) -> bool:
        """Answer a call once there is something to say, or it `is_late`; False if that takes a thread."""
        header = ps_pb2.FollowRequest.Header.FromString(call.header)
        if header.is_empty or header.file or header.server != self._server:
            return False
        try:
            self._standing.admit(header.caller.term)
            if (found := self._records(header, call, is_late=is_late)) is not None:
                call.reply(found[0].SerializeToString(), found[1])
        except Exception as error:  # of any kind: the copy asks again, and a change that was recorded is made
            call.fail(_UNAVAILABLE, str(error))
        return True

    def _records(
        self, header: ps_pb2.FollowRequest.Header, call: PlaneCall | None = None, *, is_late: bool = False
    ) -> tuple[Reply, Tensors] | None:
        """What follows in the journal, when there is something, or the copy is to be told that it is whole.

        None where there is nothing: then the `call` is kept.
        """
        journal = self._journal
        with self._changed:
            if not is_late:
                self._asked_at = time.monotonic()
            if header.copy != self._copy:
                self._copy, self._whole_at = header.copy, journal.lsn
            if header.lsn > self._has:
                self._behind_since = time.monotonic()
            self._fills, self._needs, self._has, self._held = False, header.segment, header.lsn, None
            if self._has >= journal.lsn:
                self._behind_since = None
            self._core.copied(self._has if self.is_bound else _ALL)
            self._changed.notify_all()
            if header.lsn < self._replaced_at:
                return self._said(Reply(lost="a checkpoint was loaded")), ()
            size, following = self._readable(header)
            is_news = self._is_whole(header) and self._told != (header.copy, self._standing.number)
            if size == header.at and not following and not is_news and not is_late:
                if call is not None:
                    self._held = call
                    return None
                callers.wait_for(
                    self._changed,
                    lambda: self._readable(header) != (size, following) or self._core.is_closed or self._core.is_moved,
                    header.timeout_ms / 1000,
                )
                self._asked_at = time.monotonic()
                size, following = self._readable(header)
            if size < header.at:
                self._refuse_what_is_ahead(header)
                return self._said(Reply(lost="the server has not, or not any more, what the copy has")), ()
            self._read_by, given = header.copy, (header.copy, header.segment, header.at)
            if size > header.at and given == self._given:  # it could not read what it was given
                self._hurry()
            self._given = given
            term = self._look()
            reply = self._said(Reply(is_whole=self._is_whole(header)))
            reply.term = term.number
            if reply.is_whole:
                self._confirm(term.number)
                self._told = header.copy, term.number
        if size == header.at:
            reply.segment = following
            return reply, ()
        path = segment_path(self._folder, header.segment)
        return self._with(path, header.at, min(MOST_BYTES, size - header.at), reply)

    def _with(self, path: Path, at: int, most: int, reply: Reply) -> tuple[Reply, Tensors]:
        data = read_some(path, at, most)
        return (reply, [data]) if data is not None else (self._said(Reply(lost=f"{path.name} is gone")), ())

    def _confirm(self, term: int) -> None:
        """Write down that a copy is told that it is whole, before it is; OSError if the disk does not take it."""
        if term > self._confirmed:
            whole.put(self._promise, {"term": term}, is_new=False)
            self._confirmed = term

    def _readable(self, header: ps_pb2.FollowRequest.Header) -> tuple[int, int]:
        """How much of the segment there is, and what follows it; -1, 0 where it has been removed, or never was."""
        return self._journal.readable(header.segment) or (-1, 0)

    def _is_whole(self, header: ps_pb2.FollowRequest.Header) -> bool:
        """Whether the copy has all that was acknowledged; the server is bound to it from when it nearly has."""
        lsn = self._journal.lsn
        if not self.is_bound and lsn - header.lsn <= NEAR_RECORDS:
            segment, size = self._journal.end
            if segment == header.segment and size - header.at <= NEAR_BYTES:
                self._bind()
        return self.is_bound and header.lsn >= self._whole_at

    def _refuse_what_is_ahead(self, header: ps_pb2.FollowRequest.Header) -> None:
        """CommunicationError if a copy has what this server has lost: it keeps that, and this server must not go on.

        What a copy has read from this process was not lost since: a file of the journal is gone, and the copy is filled
        again.
        """
        first = segments_in(self._folder)[0][0]
        if header.segment >= first and self.is_bound and header.copy != self._read_by:
            self.lost = (
                f"server {self._server} has lost records that its copy has, up to {header.lsn}: the disk of "
                f"{self._folder} has not kept what was written; the copy is to take its place"
            )
            raise CommunicationError(self.lost)

    def _said(self, reply: Reply) -> Reply:
        reply.term, reply.lsn = self._standing.number, self._journal.lsn
        reply.data_port = self._core.data_port
        return reply

    def _wait(self, is_over: Callable[[], bool], what: str) -> str:
        """Wait for the copy, or for a term without it; under `changed`. Why it has been in vain, for `_fail`."""
        if is_over():
            return ""
        began, core, num_freed = time.monotonic(), self._core, self._num_freed
        with LongWait(f"server {self._server}") as wait:
            while not is_over() and self._num_freed == num_freed:
                core.refuse_moved()
                if core.is_closed or self.lost:
                    raise CommunicationError(self.lost or "the server is stopping")
                if why := self._look_out(began, what):
                    return why
                if wait.is_due:
                    wait.tell(Awaited(what, is_limited=True))
                if not self._changed.wait(_LOOK_S):
                    self._look_anew()
        return ""

    def _look_anew(self) -> None:
        """Look for a term: who looks for all may wait for a lock that is held by one who waits here."""
        with contextlib.suppress(Exception):
            self._standing.look()
        self._standing.admit(self._standing.number)  # if it is a server still
        self._look()

    def _fail(self, why: str) -> None:
        """End what has waited in vain. Not under `changed`: who holds the lock of the core may wait for it."""
        if why:
            self._core.failure = why
            raise CommunicationError(why)

    def _look_out(self, began: float, what: str) -> str:
        """Say so where the copy is late; why nobody waits for it any longer."""
        now = time.monotonic()
        if now - max(began, self._asked_at) > SILENT_S or now - began > SLOW_S:
            why = f"no word for {now - self._asked_at:.1f} s, while record {self._journal.lsn} waits"
            note_copyless(self._server, self._standing.number, why)
        limit_s = longest_wait_s()
        return f"waited {limit_s:g} s for {what}; start the job again" if now - began > limit_s else ""
