"""Follows a stream of changes: takes batches as they come, and another base where they do not go on or it saves memory.

    thread "fleet-serve-follow"     takes batches into the model that answers
    thread "fleet-serve-base"       loads a base, takes the batches behind it until there are no more, and hands it
                                    over: it answers from then on

So what answers never stops while a base is loaded, never goes back within a stream, and never has half a moment.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from fleet.errors import DeadlineError, FleetError
from fleet.stream import ChangeBatch, StartOverError, StreamBase
from fleet_serve.doors.answers import Answers, FollowState
from fleet_serve.following.moments import Moments
from fleet_serve.following.stream import Followed, follow
from fleet_serve.rows.model import ServedModel

LOOK_S = 0.5
"""How long one look for batches lasts: so often it is seen whether there is a newer base, or an end."""
AGAIN_S = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Pauses before what failed is tried again."""
LAST_S = 5.0
RENEW_PART = 0.1
"""A newer base is loaded once so large a part of the rows has changed: until then it would save nothing."""

_log = logging.getLogger("fleet.serve")
Load = Callable[[Path, Iterable[int]], ServedModel]


class Side:
    """A model beside its stream: what it has taken, and how old that is."""

    def __init__(self, stream: Followed, base: StreamBase, model: ServedModel) -> None:
        self.stream, self.model = stream, model
        self.id, self.base_numbers = stream.head.stream, base.numbers
        self.numbers = list(base.numbers)
        """The last batch of each shard that was read; those of a moment that is not whole are not served yet."""
        self.num_batches = 0
        began_at = Path(base.folder).stat().st_mtime if Path(base.folder).exists() else 0.0
        self._newest = [began_at] * len(base.numbers)
        self._moments = Moments(model)

    @property
    def lag_s(self) -> float:
        """Seconds since what the shard that is furthest behind has of changes."""
        return max(0.0, time.time() - min(self._newest))

    def take(self, deadline: float) -> None:
        """All batches that are there, and those that come until time.monotonic() is `deadline`."""
        for batch in self.stream.batches(self.numbers, deadline):
            self._take(batch)

    def _take(self, batch: ChangeBatch) -> None:
        self._moments.take(batch)
        self.numbers[batch.shard] = batch.number
        self.num_batches += 1
        if batch.whole >= batch.number:
            self._newest[batch.shard] = max(self._newest[batch.shard], batch.newest)

    def is_worn(self) -> bool:
        """Whether so much has changed that a newer base is worth its loading."""
        rows = sum(len(table.base) for table in self.model.tables.values())
        return sum(map(self.model.num_changed, self.model.tables)) > RENEW_PART * rows


class Follower:
    """Keeps what answers at the side of its job, from `start` to `stop`."""

    def __init__(self, url: str, load: Load, answers: Answers) -> None:
        self._url, self._load, self._answers = url, load, answers
        self._stop = threading.Event()
        self._side: Side | None = None
        self._next: Side | None = None
        self._loader: threading.Thread | None = None
        self._why_stale = "the first base is not loaded yet"
        self._why_failed = ""
        """Why there is not yet another base; empty: nothing has failed since the last one."""
        self._num_unloaded = 0
        """How often in a row a base could not be loaded."""
        self._counts = FollowState()
        self._began_at = time.time()
        self._thread = threading.Thread(target=self._run, name="fleet-serve-follow", daemon=True)

    @property
    def state(self) -> FollowState:
        """How the model keeps up now."""
        side = self._side
        lag_s = time.time() - self._began_at if side is None else side.lag_s
        why = f"{self._why_stale}; {self._why_failed}" if self._why_stale and self._why_failed else self._why_stale
        return replace(self._counts, stream="" if side is None else side.id, lag_s=lag_s, why_stale=why)

    def start(self) -> None:
        """Begin to follow; what cannot be had is waited for."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait a moment for a base that is being loaded, or for a file system that does not answer."""
        self._stop.set()
        for thread in (self._thread, self._loader):
            if thread is not None and thread.is_alive():
                thread.join(LAST_S)
        for side in (self._side, self._next):
            if side is not None:
                side.stream.close()

    def _run(self) -> None:
        num_failures = 0
        while not self._stop.is_set():
            try:
                self._look()
                num_failures = 0
            except (FleetError, OSError) as error:  # such as a folder that cannot be read now
                self._failed(str(error))
                self._stop.wait(AGAIN_S[min(num_failures, len(AGAIN_S) - 1)])
                num_failures += 1
            except Exception as error:
                _log.exception("following failed")
                self._failed(f"{type(error).__name__}: {error}")
                self._stop.wait(AGAIN_S[-1])

    def _look(self) -> None:
        """One look for batches; takes over a base that is loaded, and has one loaded where that is due."""
        if (after := self._next) is not None:
            self._take_over(after)
        side = self._side
        if side is None or self._why_stale:
            self._load_next()
            self._stop.wait(0.02)
            return
        before = side.num_batches
        try:
            side.take(time.monotonic() + LOOK_S)
        except StartOverError as error:
            self._why_stale, self._why_failed = str(error), ""
            _log.warning("%s; what is loaded goes on answering meanwhile", error)
        finally:
            self._counts = replace(self._counts, num_batches=self._counts.num_batches + side.num_batches - before)
        if not self._why_stale and side.is_worn():
            head = side.stream.refresh()
            if head.stream == side.id and _is_newer(head.base.numbers, side.base_numbers):
                self._load_next()

    def _failed(self, why: str) -> None:
        if why not in (self._why_stale, self._why_failed):
            _log.warning("following %s: %s; it is tried again", self._url, why)
        if self._side is None:
            self._why_stale = why
        else:
            self._why_failed = why
        self._counts = replace(self._counts, num_failures=self._counts.num_failures + 1)

    def _take_over(self, after: Side) -> None:
        """Let another side answer: with all that is there now, so it has what the present one has."""
        before, self._next = self._side, None
        try:
            after.take(time.monotonic())
        except BaseException:
            after.stream.close()
            raise
        self._answers.serve(after.model)
        self._side, self._why_stale, self._why_failed = after, "", ""
        counts = self._counts
        self._counts = replace(
            counts, num_bases=counts.num_bases + 1, num_batches=counts.num_batches + after.num_batches
        )
        _log.info("serving base %s, changes up to %s", after.model.name, list(after.model.version.numbers))
        if before is not None:
            for table in before.model.tables.values():
                if table.held.path not in after.model.files:
                    table.held.remove()
            before.stream.close()

    def _load_next(self) -> None:
        """Have the newest base loaded, unless that is under way."""
        if self._next is None and (self._loader is None or not self._loader.is_alive()):
            self._loader = threading.Thread(target=self._load_base, name="fleet-serve-base", daemon=True)
            self._loader.start()

    def _load_base(self) -> None:
        """Load a base, and take what lies behind it; what fails is tried again, with the base that is newest then."""
        side, was_stale = self._side, bool(self._why_stale)
        while not self._stop.is_set():
            try:
                self._next = self._loaded(side, was_stale)
                self._num_unloaded = 0
                return
            except DeadlineError:
                continue  # there is none yet
            except (FleetError, OSError) as error:
                self._failed(str(error))
            except Exception as error:
                _log.exception("loading a base failed")
                self._failed(f"{type(error).__name__}: {error}")
            self._stop.wait(AGAIN_S[min(self._num_unloaded, len(AGAIN_S) - 1)])
            self._num_unloaded += 1
            if not was_stale:
                return  # what answers goes on by itself, and asks again

    def _loaded(self, side: Side | None, was_stale: bool) -> Side:
        """The newest base, loaded; where batches do not go on, once there is one behind them. DeadlineError: not yet.

        Where they do not go on nobody else uses the stream of that side, which asks the job for a base after a while.
        """
        if side is not None and was_stale and side.stream.head.stream == side.id:
            side.stream.next_base(side.numbers, LOOK_S)
        stream = follow(self._url)
        try:
            base = stream.base
            after = Side(stream, base, self._load(Path(base.folder), base.numbers))
            after.take(time.monotonic())
        except BaseException:
            stream.close()
            raise
        return after


def _is_newer(numbers: Sequence[int], than: Sequence[int]) -> bool:
    return any(new > old for new, old in zip(numbers, than, strict=True))
