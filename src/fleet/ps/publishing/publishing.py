"""A server's publishing: a thread that has each batch in its place some fractions of a second after the changes.

Training never waits for it. Where the sink is slow or down there is one batch under way, and no further mark is made:
the tables note which keys change meanwhile, each once, and the next batches have all of them. Where they cannot note
any more, or a checkpoint was loaded, a number is left out and a base is written: who follows takes that.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any

from fleet.errors import CommunicationError, FleetError, StreamError
from fleet.ps.held.touched import mark_part
from fleet.ps.journal.records import Kind
from fleet.ps.publishing.bases import BaseKeeper, begun, want, want_no_more, wanted_by_servers, write_part
from fleet.ps.publishing.changes import DenseChanges, cut, read_rows
from fleet.ps.steps.state import PublishTo
from fleet.stream import ChangeBatch, StreamHead
from fleet.stream.batches import pack, unpack
from fleet.stream.sinks import Sink, open_sink

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from fleet.ps.held.holdings import Holdings
    from fleet.ps.steps.core import Core

IDLE_S = 5.0
"""How often a batch goes out where nothing changes, and whether the stream is still ours is looked at."""
LAST_S = 5.0
"""How long a server that ends tries to publish its last changes."""
LATER_S = 2.0
"""How long after a failure the next try begins."""
LEAST_BEHIND = 256 << 20
"""Bytes of batches behind a base before another is written for their size, however small the tables are."""

_CONSUMER = "stream"
_log = logging.getLogger(__name__)


class Publishing:
    """What a service does about it: publishes as its state says, once it is the server, until it is told otherwise."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._lock = threading.Lock()
        self._is_closed = False
        self.running: Publisher | None = None
        """What publishes now."""

    def look(self) -> None:
        """Go by the state: it was told where to publish, or has become the server, or both long ago."""
        core = self._core
        with self._lock:
            asked = PublishTo() if core.is_copy or core.is_moved else core.state.publish
            former = self.running if self.running is not None and self.running.asked != asked else None
            if former is not None:
                former.end(is_told=True)
                self.running = None
            if not self._is_closed and self.running is None and asked.url and core.state.holdings is not None:
                self.running = Publisher(core, core.state.holdings, asked, former)
        if former is not None:
            former.join()

    def close(self) -> None:
        """Publish what has changed last, and stop."""
        with self._lock:
            self._is_closed, running = True, self.running
        if running is not None:
            running.end()
            running.join()


class Publisher:
    """The thread, for one place to publish to."""

    def __init__(self, core: Core, holdings: Holdings, asked: PublishTo, former: Publisher | None = None) -> None:
        self.asked, self._former = asked, former
        self._core, self._holdings = core, holdings
        self._sink: Sink = open_sink(asked.url)
        self._stream = ""
        self._number = 0
        """The last number that was given to a batch, or left out."""
        self._whole = 0
        """The last number with which everything of a moment was in the sink."""
        self._mark = ""
        """The mark up to which everything is in the sink, as a batch there says, or is to be in a base."""
        self._marked = ""
        """The mark whose changes are under way; the mark above, if none are."""
        self._cuts: deque[dict[int, NDArray[np.int64]]] = deque()
        self._dense: dict[tuple[str, int], NDArray[np.float32]] = {}
        self._dense_changes = DenseChanges()
        self._packed: bytes | None = None
        self._marked_at = self._visible_at = time.time()
        self._step = 0
        self._put_at = self._checked_at = 0.0
        self._behind_base = 0
        """Bytes of batches since this server's part of the last base."""
        self._keeper: BaseKeeper | None = None
        self._beside: threading.Thread | None = None
        """Writes the part of a base, or commits one: that may take long, and batches go on meanwhile."""
        self._part_of: Path | None = None
        self._trouble = ""
        self._is_announced = self._is_lost = False
        """Whether `stream.json` has named this stream; whether another job has taken the place since."""
        self.num_batches = self.num_bytes = self.num_failures = 0
        self._closed = threading.Event()
        self._is_told = False
        self._deadline: float | None = None
        self._thread = threading.Thread(target=self._run, name="fleet-publish", daemon=True)
        self._thread.start()

    @property
    def lag_s(self) -> float:
        """How long ago everything that had changed was in the sink."""
        return max(0.0, time.time() - self._visible_at)

    @property
    def num_bases(self) -> int:
        """How many bases server 0 has completed."""
        return 0 if self._keeper is None else self._keeper.num_written

    def end(self, *, is_told: bool = False) -> None:
        """Have it end: once it has published what is left, unless it was told to stop; idempotent."""
        self._is_told, self._deadline = is_told, self._deadline or time.monotonic() + (0.0 if is_told else LAST_S)
        self._closed.set()

    def join(self) -> None:
        """Wait for its end, but not for a place that hangs, or a copy that is gone."""
        self._thread.join(LAST_S if self._is_told or self._core.is_closed else 2 * LAST_S)

    def _run(self) -> None:
        if self._former is not None:
            self._former.join()
        self._go_on()
        if self._beside is not None:
            self._beside.join(LAST_S)
        if self._is_told and not self._core.is_moved:
            with suppress(FleetError), self._core.gate.closed:
                self._core.change(Kind.MARK, [mark_part(_CONSUMER, "", "")])
        self._sink.close()

    def _go_on(self) -> None:
        wait_s = 0.0
        while not self._closed.wait(wait_s):
            began = time.monotonic()
            is_well = self._try()
            wait_s = max(0.0, self.asked.every_s - (time.monotonic() - began)) if is_well else LATER_S
        while self._deadline is not None and time.monotonic() < self._deadline:
            with suppress(OSError):
                if self._try() and self._try() and self._is_settled():  # the first has put what was under way
                    return
            time.sleep(0.05)

    def _try(self) -> bool:
        """One round; whether it went well."""
        if self._core.is_moved or self._is_lost:
            return True
        try:
            if self._stream or self._begin():
                self._publish()
                self._look_at_bases()
        except Exception as error:  # of any kind: a thread that is gone publishes no more, and says nothing
            if isinstance(error, FileExistsError):  # this life is not the only one: it goes on behind the other
                self._stream = ""
            self._note_failure(error)
            return False
        if self._trouble:
            self._trouble = ""
            _log.info("publishing to %s goes on", self._sink.url)
        return True

    def _note_failure(self, error: Exception) -> None:
        self.num_failures += 1
        why = (error.strerror if isinstance(error, OSError) else None) or str(error) or repr(error)
        if why != self._trouble:
            self._trouble = why
            _log.warning("nothing can be published to %s, and it is tried again: %s", self._sink.url, why)

    @property
    def _is_busy(self) -> bool:
        return self._beside is not None and self._beside.is_alive()

    def _is_settled(self) -> bool:
        """Whether no server waits for a part that this one has in a base."""
        if not self._stream or self._core.is_moved or self._is_lost:
            return True
        writing = begun(self._sink.bases, self._stream)
        has_part = writing is None or (self._keeper is None and writing == self._part_of)
        return has_part and not self._is_busy and not wanted_by_servers(self._sink.bases, self._stream)

    def _begin(self) -> bool:
        """Find out where a former life of this server has stopped; False while the job has not begun."""
        core, holdings = self._core, self._holdings
        if not (core.state.run and holdings.is_started) or self._is_busy:
            return False
        stream = f"{core.state.run:016x}-{holdings.job.num_servers}"
        (_, newest), mark, keeper = self._sink.span(stream, holdings.server), "", self._keeper
        if newest and (blob := self._sink.get(stream, holdings.server, newest)) is not None:
            with suppress(StreamError):  # damaged, or of a format to come: then it begins with a base
                mark = unpack(blob).mark
        if holdings.server == 0:
            keeper = BaseKeeper(holdings, self._sink, stream, self.asked.every_s)
            keeper.begin()
        self._cuts, self._packed, self._dense_changes = deque(), None, DenseChanges()
        self._number, self._mark, self._marked, self._keeper, self._stream = newest, mark, mark, keeper, stream
        _log.info("publishing to %s, stream %s, behind batch %d", self._sink.url, stream, newest)
        return True

    def _publish(self) -> None:
        """Put what is under way into the sink, then mark, and put what has changed."""
        if not self._cuts:
            self._take()
        while self._cuts and not self._is_told:
            is_last = len(self._cuts) == 1
            if self._packed is None:
                self._packed = self._next(is_last=is_last)
            if self._packed:
                self._sink.put(self._stream, self._holdings.server, self._number + 1, self._packed)
                self._number += 1
                self._put_at = time.monotonic()
                self.num_batches, self.num_bytes = self.num_batches + 1, self.num_bytes + len(self._packed)
                self._behind_base += len(self._packed)
                if is_last:
                    self._mark, self._whole = self._marked, self._number
            self._packed = None
            self._cuts.popleft()
            if is_last:
                self._dense, self._visible_at = {}, self._marked_at

    def _take(self) -> None:
        """Mark, and find out what has changed since the mark before."""
        core, holdings = self._core, self._holdings
        mark = f"{self._number + 1}-{time.time_ns():x}"
        with core.gate.closed:
            core.refuse_failed()
            found = core.change(Kind.MARK, [mark_part(_CONSUMER, self._mark, mark)])
            self._step, marked_at = core.state.rounds.version, time.time()
        if any(one.is_all for one in found):
            self._start_over(mark, marked_at)
            return
        self._marked, self._marked_at = mark, marked_at
        self._dense = self._dense_changes.take(holdings, inf if self._closed.is_set() else time.monotonic())
        self._cuts.extend(cut(holdings, found))

    def _start_over(self, mark: str, marked_at: float) -> None:
        """Leave a number out, so that who follows sees that batches do not lead on, and have a base written.

        It is the time in milliseconds: no base has that, also none of a former life that may be written just now.
        """
        text = self._sink.head()
        head = None if text is None else StreamHead.from_text(text, self._sink.url)
        known = head.base.numbers[self._holdings.server] if head is not None and head.stream == self._stream else 0
        self._number = self._whole = max(self._number + 1, known + 1, int(marked_at * 1000))
        self._mark = self._marked = mark
        self._visible_at, self._put_at = marked_at, 0.0  # an empty batch, if nothing else, shows the gap
        self._dense_changes.forget()
        self._part_of = None  # of a base that is being written it writes its part again
        want(self._sink.bases, self._holdings.server, self._stream)

    def _next(self, *, is_last: bool) -> bytes:
        """The next batch; empty bytes if there is nothing to say."""
        holdings, keys, number = self._holdings, self._cuts[0], self._number + 1
        dense = self._dense if is_last else {}
        if not keys and not dense and time.monotonic() - self._put_at < IDLE_S:
            return b""
        about = self._visible_at, self._marked_at, self._step, number if is_last else self._whole
        marks = self._marked if is_last else self._mark, self._mark
        rows = read_rows(holdings, keys)
        return pack(ChangeBatch(self._stream, holdings.server, number, rows, dense, *about, *marks))

    def _look_at_bases(self) -> None:
        self._refuse_others()
        if self._is_told or self._is_lost or self._is_busy:
            return
        if self._keeper is not None and (complete := self._keeper.look()) is not None:
            self._do_beside(self._commit, self._keeper, complete)
            return
        writing = begun(self._sink.bases, self._stream)
        if writing is None and self._behind_base > max(LEAST_BEHIND, 4 * self._base_bytes()):
            want(self._sink.bases, self._holdings.server, self._stream)  # then older batches are removed
        if writing is None or writing == self._part_of:
            return
        self._part_of, self._behind_base = writing, 0
        want_no_more(self._sink.bases, self._holdings.server, self._stream)
        self._do_beside(self._write_part, writing, self._number)

    def _do_beside(self, work: Callable[..., None], *arguments: Any) -> None:
        self._beside = threading.Thread(target=work, args=arguments, name="fleet-base", daemon=True)
        self._beside.start()

    def _commit(self, keeper: BaseKeeper, writing: Path) -> None:
        try:
            keeper.complete(writing)
        except Exception as error:  # of any kind, as above
            self._note_failure(error)
            self._closed.wait(LATER_S)

    def _base_bytes(self) -> int:
        """How much this server's rows weigh in a base."""
        held = self._holdings
        return sum(len(table) * (8 + 4 * spec.width) for table, spec in zip(held.tables, held.job.tables, strict=True))

    def _write_part(self, writing: Path, number: int) -> None:
        forgotten = self._core.state.num_forgotten  # before the rows are read
        try:
            write_part(self._holdings, number, self._step, forgotten, self._stream, writing, self._refuse_late)
        except Exception as error:  # of any kind: the folder may be gone, or the disk full
            if writing.exists() and not self._closed.wait(LATER_S):
                self.num_failures += 1
                _log.warning("server %d cannot write its part of a base: %s", self._holdings.server, error)
            with suppress(OSError):
                want(self._sink.bases, self._holdings.server, self._stream)
            self._part_of = None

    def _refuse_late(self) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise CommunicationError("the server is stopping")

    def _refuse_others(self) -> None:
        """Stop where another job has taken the place; a `stream.json` that somebody has removed is written again."""
        now = time.monotonic()
        if self._is_announced and now - self._checked_at < IDLE_S:
            return
        self._checked_at, text = now, self._sink.head()
        there = "" if text is None else StreamHead.from_text(text, self._sink.url).stream
        if there == self._stream:
            self._is_announced = True
        elif self._is_announced and not there and self._keeper is not None:
            want(self._sink.bases, 0, self._stream)
        elif self._is_announced and there:
            self._is_lost = True
            _log.error(
                "another job publishes to %s, stream %s: nothing more is published there from here, stream %s; give "
                "each job a place of its own",
                *(self._sink.url, there, self._stream),
            )
