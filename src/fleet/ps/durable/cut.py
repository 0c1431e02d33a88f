"""One moment of all servers, while training goes on: a server's side of a cut (docs/adr/0020-one-cut.md).

First pushes that are new wait at the door. Then those are let in that another server has taken already; when all of
them have come, the server copies what it holds, and the door opens. The journal has nothing of a cut: a server that was
started again says that it knows no cut, and the caller begins anew.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.errors import CheckpointError, CommunicationError, UsageError
from fleet.observe.waits.waiting import workers_text
from fleet.ps.durable import storage
from fleet.ps.durable.saves import IDLE_S, Moved, SaveMoment, Saves, Write, copied, in_place
from fleet.ps.held.holdings import Holdings
from fleet.ps.job.patience import longest_wait_s
from fleet.ps.proto import ps_pb2
from fleet.ps.wire import callers
from fleet.ps.wire.messages import Tensors
from fleet.ps.wire.taken_pushes import TakenPushes, born_since, still_missing, wanted_of

if TYPE_CHECKING:
    from fleet.ps.steps.core import Core

DOOR_S = 30.0
"""How long a server waits for the next call about a cut, and for pushes that are in it."""
NUM_OVER = 64
_POLL_S = 0.05

Phase = ps_pb2.CutRequest.Phase
Reply = ps_pb2.CutReply.Header

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Cut:
    """A cut, until what it holds is on its way to the disk."""

    name: int
    worker: int
    """The worker that makes it."""
    began_at: float = field(default_factory=time.monotonic)
    wanted: Sequence[TakenPushes] = ()
    """The pushes of each worker that it holds; empty until they are known."""
    contents: storage.ServerContents | None = None
    moment: SaveMoment | None = None
    """Set when the copy was made."""
    is_copied: bool = False
    held_s: float = 0.0
    num_words: int = 0
    """How often a call about it was expected."""
    write: Write | None = None
    """Set where there was no room for a copy: the door is shut until this write ends."""


class Cuts:
    """The cuts of one server, one at a time."""

    def __init__(self, core: Core, saves: Saves) -> None:
        self._core = core
        self._saves = saves
        self._changed = threading.Condition()
        """Acquired before the gate."""
        self._cut: _Cut | None = None
        self._lost = (0, "")
        """The last cut that was dropped, and why."""
        self._over: deque[int] = deque(maxlen=NUM_OVER)
        """The names of the last cuts that have ended: a call about one of them is late, and shuts no door."""
        self._timer: threading.Timer | None = None
        core.door.entered.append(self._notice)

    def answer(self, header: ps_pb2.CutRequest.Header, _: Tensors) -> tuple[Reply, Tensors]:
        """Answer a call of `Cut`."""
        holdings = self._core.known(header.caller)
        if holdings.job.mode == "sync":
            raise UsageError("in sync mode servers hold one moment between any two steps, without a cut")
        if not header.cut:
            raise UsageError("a cut has a name, which is not 0")
        if header.phase == Phase.HOLD:
            return self._hold(header), ()
        if header.phase == Phase.TAKE:
            return self._take(holdings, header)
        if header.phase != Phase.DROP:
            raise UsageError(f"a cut has no phase {header.phase}")
        with self._changed:
            if self._cut is not None and self._cut.name == header.cut:
                self._drop(self._cut, "its caller has given it up")
        return Reply(is_done=True), ()

    def save(self, holdings: Holdings, header: ps_pb2.SaveRequest.Header) -> ps_pb2.SaveReply.Header:
        """Answer a call of `Save` that is about a cut."""
        known = self._saves.known(header.folder, header.cut)
        if known is None:
            path = storage.check_folder(holdings, header.folder)
            with self._changed:
                cut = self._cut
                if cut is None or cut.name != header.cut or cut.moment is None:
                    known = self._saves.known(header.folder, header.cut)  # another call may have begun it meanwhile
                    if known is None:
                        return ps_pb2.SaveReply.Header(lost=self._why_lost(header.cut))
                else:
                    known = self._write(cut, cut.moment, path, header)
        return self._saves.answer(known, header)

    def forget(self, why: str) -> None:
        """Drop the cut that is being made: what it was to hold is gone."""
        with self._changed:
            if self._cut is not None:
                self._drop(self._cut, why)

    @property
    def changed(self) -> threading.Condition:
        """Guards `is_busy`; notified when that changes."""
        return self._changed

    @property
    def is_busy(self) -> bool:
        """Whether a cut is being made; the caller locks."""
        return self._cut is not None

    def close(self) -> None:
        """The server stops: nobody waits any more."""
        self.forget("the server is stopping")

    def _hold(self, header: ps_pb2.CutRequest.Header) -> Reply:
        core, deadline = self._core, time.monotonic() + min(header.timeout_ms / 1000, longest_wait_s())
        with self._changed:
            while self._cut is None or self._cut.name != header.cut:
                if core.is_closed:
                    raise CommunicationError("the server is stopping")
                if header.cut in self._over:
                    return Reply(lost=self._why_lost(header.cut), busy="one that is over")
                unfinished = self._saves.unfinished
                if self._cut is None and unfinished is None and not core.door.is_moving:
                    self._cut = _Cut(header.cut, header.caller.worker)
                    self._expect(self._cut, DOOR_S)
                elif time.monotonic() >= deadline:
                    return Reply(busy=self._busy(unfinished), num_files=unfinished.num_files if unfinished else 0)
                else:
                    callers.wait_for(self._changed, lambda: False, _POLL_S)
            with core.gate.closed:
                taken = self._core.state.ledger.all_taken()
                if not core.door.is_shut:
                    core.door.shut(taken)
            return Reply(is_done=True, taken=[one.message() for one in taken])

    def _take(self, holdings: Holdings, header: ps_pb2.CutRequest.Header) -> tuple[Reply, Tensors]:
        wanted = wanted_of(header.taken, holdings.job.num_workers, "a cut")
        with self._changed:
            cut = self._cut
            if cut is None or cut.name != header.cut:
                return Reply(lost=self._why_lost(header.cut)), ()
            if cut.moment is None:
                cut.wanted = wanted
                self._core.door.shut(wanted)
                callers.wait_for(
                    self._changed, lambda: self._cut is not cut or not self._missing(cut), header.timeout_ms / 1000
                )
                if self._cut is cut and (late := born_since(self._core.state.ledger.all_taken(), cut.wanted)):
                    self._drop(cut, f"{workers_text(late)} began a new life before all its pushes had come")
                if self._cut is not cut:
                    return Reply(lost=self._why_lost(header.cut)), ()
                if missing := self._missing(cut):
                    return Reply(missing=missing), ()
                self._copy(cut, holdings, header.tracked)
            dense = cut.contents.dense if header.want_dense and cut.contents is not None else ()
            return Reply(is_done=True, held_s=cut.held_s, is_copied=cut.is_copied), dense

    def _copy(self, cut: _Cut, holdings: Holdings, tracked: ps_pb2.Tracked) -> None:
        core = self._core
        with core.gate.closed:
            keys = core.mark(tracked)
            contents = copied(holdings, keys)
            cut.is_copied = contents is not None
            cut.contents = contents or in_place(holdings, keys)
            cut.moment = SaveMoment.of(core.state)
            cut.held_s = time.monotonic() - cut.began_at
            if cut.is_copied:
                core.door.open()
        self._expect(cut, DOOR_S)

    def _write(self, cut: _Cut, moment: SaveMoment, path: Path, header: ps_pb2.SaveRequest.Header) -> Write:
        contents = cut.contents
        assert contents is not None
        cut.contents = None
        write_all = storage.export if header.values_only else storage.write
        work = partial(write_all, contents, path)
        if cut.is_copied:
            write = Write(header.folder, moment, work, values_only=header.values_only, cut=cut.name)
            self._end(cut)
        else:

            def work_behind_the_door(moved: Moved) -> str:
                try:
                    account = work(moved)
                finally:
                    with self._changed:
                        is_whole = self._cut is cut
                        if is_whole:
                            self._end(cut)
                if not is_whole:
                    raise CheckpointError(self._why_lost(cut.name))
                return account

            write = Write(header.folder, moment, work_behind_the_door, values_only=header.values_only, cut=cut.name)
            cut.write = write
            self._expect(cut, IDLE_S)
        return self._saves.start(write)

    def _notice(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _missing(self, cut: _Cut) -> list[int]:
        """The workers whose pushes the cut holds, and have not come yet; here and below the caller holds `_changed`."""
        return still_missing(self._core.state.ledger.all_taken(), cut.wanted)

    def _busy(self, unfinished: Write | None) -> str:
        if self._core.door.is_moving:
            return "rows move to other servers"
        if self._cut is None:
            return "" if unfinished is None else f"the one into {unfinished.folder}"
        return f"that of worker {self._cut.worker}, which began {time.monotonic() - self._cut.began_at:.1f} s ago"

    def _why_lost(self, name: int) -> str:
        lost, why = self._lost
        return why if lost == name else "the server was started again"

    def _drop(self, cut: _Cut, why: str) -> None:
        self._lost = cut.name, why
        self._end(cut)

    def _end(self, cut: _Cut) -> None:
        """End the cut, and let everything in."""
        assert self._cut is cut
        self._over.append(cut.name)
        self._cut, cut.contents = None, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._core.door.open()
        self._changed.notify_all()

    def _expect(self, cut: _Cut, timeout_s: float, num_files: int = 0) -> None:
        """Drop the cut if nothing happens to it for a while."""
        if self._timer is not None:
            self._timer.cancel()
        cut.num_words += 1
        self._timer = threading.Timer(timeout_s, self._expire, (cut, cut.num_words, timeout_s, num_files))
        self._timer.daemon = True
        self._timer.start()

    def _expire(self, cut: _Cut, num_words: int, waited_s: float, num_files: int) -> None:
        with self._changed:
            if self._cut is not cut or cut.num_words != num_words:
                return
            if cut.write is not None and cut.write.num_files > num_files:
                self._expect(cut, waited_s, cut.write.num_files)
                return
            if cut.write is not None:
                awaited = "a file to be written"
            elif cut.wanted and (missing := self._missing(cut)):
                awaited = f"pushes of {workers_text(missing)} that other servers have"
            else:
                awaited = f"the next word of worker {cut.worker}"
            why = f"it waited {waited_s:g} s for {awaited}"
            _log.warning("a save was given up: %s; training goes on", why)
            self._drop(cut, why)
