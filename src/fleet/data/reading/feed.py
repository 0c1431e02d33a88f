"""What one worker reads of streams: its partitions in turn, chunk by chunk, and what its position has to say of that.

Which chunks a batch is made of depends on what has come when. So the position that goes with a push has them too: they
are added to it when the batch is handed out (`LivePosition`), and the next life makes the same batch again.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from fleet._lazy import tool
from fleet.checks import count_of, name_of, seconds_of
from fleet.data.reading.growing import GrowingPieces, key_of
from fleet.data.reading.piece_batches import Piece, Work
from fleet.data.streams.contract import Chunk, StreamUrl
from fleet.errors import UsageError

POLL_S = 0.05
"""How long is waited before all partitions are asked again for what has come."""


@dataclass(frozen=True)
class Feed:
    """How streams are read, and when a loop over them ends: with the first of these that comes true.

    `idle_s`: nothing new came for so long (0: all that is there is read). `until`: records of that time by the broker
    and later are left for the next loop. `most`: so many records were read by all workers. Without any it never ends.

    `time` names the number of the schema that says when a line happened, in seconds since 1970, and a line that came to
    the broker more than `late_s` after that is counted as late. Bad records are kept in the folder `dead_letters`, up
    to `dead_bytes` for each worker. `away_s`: how long the broker may be away.
    """

    idle_s: float | None = None
    until: float | datetime | None = None
    most: int | None = None
    time: str | None = None
    late_s: float = 60.0
    dead_letters: str | os.PathLike[str] | None = None
    dead_bytes: int = 64 << 20
    away_s: float = 300.0

    def __post_init__(self) -> None:
        if self.idle_s is not None:
            seconds_of("idle_s", self.idle_s)
        if isinstance(self.until, datetime):
            object.__setattr__(self, "until", self.until.timestamp())
        if self.until is not None:
            seconds_of("until", self.until)
        if self.most is not None:
            count_of("most", self.most)
        if self.time is not None:
            name_of("time", self.time)
        seconds_of("late_s", self.late_s)
        count_of("dead_bytes", self.dead_bytes)
        seconds_of("away_s", self.away_s, above=0)

    @classmethod
    def of(cls, given: object) -> Feed:
        """What `follow=` says of streams: False, what is there; True; the seconds to wait for more; or all of it."""
        if isinstance(given, Feed):
            return given
        if isinstance(given, bool):
            return cls() if given else cls(idle_s=0)
        return cls(idle_s=seconds_of("follow", given, above=0))


class ChunkName(NamedTuple):
    """A chunk in a position: its partition, where it begins and ends, and how many of its rows were taken."""

    path: str
    first: int
    last: int
    taken: int = 0


class LivePosition(dict[str, Any]):
    """A position that learns which chunks the batches behind it are made of, while somebody holds it."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # of this very one: they are held in a set


@dataclass
class FeedPartition:
    """One partition of this worker."""

    url: StreamUrl
    name: str
    position: int | None = None
    """Behind the last chunk; None: where the broker begins."""
    is_over: bool = False
    """Whether this loop reads no more of it."""
    is_checked: bool = False
    """Whether the broker is known to have what comes next."""

    @property
    def path(self) -> str:
        """Its name among all."""
        return f"{self.url}/{self.name}"


class FeedWork(Work):
    """What one worker reads of streams. A thread that reads ahead makes chunks; batches decide on them, in order."""

    most_ahead = None

    def __init__(self, feed: Feed, partitions: Sequence[FeedPartition], seed: int | None, share: int | None) -> None:
        """`share`: how many records a loop reads here."""
        self._feed, self._partitions, self._share = feed, list(partitions), share
        self.pieces = GrowingPieces(seed)
        self._source = tool("stream_chunks")(feed)
        self._lock = threading.Lock()
        self._chunks: dict[int, Chunk] = {}
        """Chunks that are not trained on to their end, by number."""
        self._again: list[ChunkName] = []
        """Chunks that a former life has decided on, and this one has not read yet."""
        self._num_decided = 0
        """How many chunks batches were made of."""
        self._taken: dict[int, int] = {}
        """How many rows were taken of chunks that are begun."""
        self._turn = 0
        self._last = ""
        """The partition of the last chunk that is decided: the next one is that of the partition after it."""
        self._live: weakref.WeakSet[LivePosition] = weakref.WeakSet()
        self._stopped = threading.Event()
        self.renew()

    def renew(self) -> None:
        """Another loop begins, which may read as much again. What the last one has left had no row."""
        for number in list(self._chunks):
            self.pieces.forget(number)
            self._num_decided = number + 1
            del self._chunks[number]
        self._left = self._left_decided = self._share
        self._is_over = self._is_over_decided = False
        for one in self._partitions:
            one.is_over = False

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on at a position, or at what is ours of that of all workers."""
        ours = {one.path: one for one in self._partitions}
        for path, position in state["positions"].items():
            if path in ours:
                ours[path].position = int(position)
        try:
            chunks = [ChunkName(one[0], *map(int, one[1:])) for one in state["chunks"]]
        except (TypeError, ValueError) as error:
            raise UsageError(f"chunks of a reader's state cannot be read ({error}); the state is damaged") from error
        self._again = [one for one in chunks if one.path in ours]
        self._num_decided = len(self._again)
        self._taken = {number: one.taken for number, one in enumerate(self._again)}
        self._left = self._left_decided = state["left"]
        self._is_over = self._is_over_decided = bool(state["over"])
        self._last = str(state["last"])
        self._turn = next((place + 1 for place, path in enumerate(ours) if path == self._last), 0)

    def position(self, *, is_live: bool = False) -> LivePosition:
        """Where it is. A partition goes on at the first chunk that no batch was made of."""
        with self._lock:
            places = {one.path: one.position for one in self._partitions if one.position is not None}
            for number, chunk in reversed(self._chunks.items()):
                if number >= self._num_decided:
                    places[chunk.path] = chunk.first
            open_ones = [
                [chunk.path, chunk.first, chunk.last, self._taken.get(number, 0)]
                for number, chunk in self._chunks.items()
                if number < self._num_decided
            ]
            found = LivePosition(
                positions=places,
                chunks=open_ones + [list(one) for one in self._again],
                left=self._left_decided,
                last=self._last,
                over=self._is_over_decided,
            )
        if is_live:
            self._live.add(found)
        return found

    def note(self, finished: list[int], begun: Piece | None) -> None:
        touched = [*finished, *([] if begun is None else [begun.number])]
        with self._lock:
            end = max(self._chunks, default=-1) if self._is_over else max(touched, default=-1)
            for number in range(self._num_decided, end + 1):
                self._decide(self._chunks[number])
            self._num_decided = max(self._num_decided, end + 1)
            self._is_over_decided = self._is_over
            for live in self._live:
                live["over"] = self._is_over
            for number in finished:
                self.pieces.forget(number)
                del self._chunks[number]
                self._taken.pop(number, None)
            if begun is not None:
                self._taken[begun.number] = begun.taken

    def _decide(self, chunk: Chunk) -> None:
        self._last = chunk.path
        if self._left_decided is not None:
            self._left_decided -= len(chunk.records)
        for live in self._live:
            live["chunks"].append([chunk.path, chunk.first, chunk.last, 0])
            live["positions"][chunk.path] = chunk.last
            live["left"], live["last"] = self._left_decided, self._last

    def wanted(self) -> Iterator[Piece]:
        self._stopped = threading.Event()  # before a thread asks: `stop` may come first
        atexit.register(self.close)  # called after the threads that read ahead have ended
        return self._coming(self._stopped)

    def _coming(self, stopped: threading.Event) -> Iterator[Piece]:
        for number in list(self._chunks):
            yield Piece(number, self._taken.get(number, 0))
        while self._again:
            name = self._again[0]
            part = next(one for one in self._partitions if one.path == name.path)
            if (chunk := self._source.read_again(part, name.first, name.last, stopped)) is None:
                return
            yield self._add(part, chunk, is_again=True)
        last_new = time.monotonic()
        while not (stopped.is_set() or self._is_over):
            is_new = False
            for _ in self._partitions:
                part = self._partitions[self._turn % len(self._partitions)]
                self._turn += 1
                if not part.is_over and self._left != 0 and (chunk := self._source.read(part, self._left, stopped)):
                    is_new = True
                    yield self._add(part, chunk)
            if is_new:
                last_new = time.monotonic()
            elif not stopped.is_set():
                idle_s = self._feed.idle_s
                is_idle = idle_s is not None and time.monotonic() - last_new >= idle_s
                self._is_over = is_idle or self._left == 0 or all(one.is_over for one in self._partitions)
                stopped.wait(0 if self._is_over else POLL_S)

    def _add(self, part: FeedPartition, chunk: Chunk, *, is_again: bool = False) -> Piece:
        with self._lock:
            number = self.pieces.add(chunk, key_of(part.path))
            self._chunks[number] = chunk
            if is_again:
                del self._again[0]
            else:
                part.position = chunk.last
                self._left = None if self._left is None else self._left - len(chunk.records)
        return Piece(number, self._taken.get(number, 0))

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        """Let go of the brokers."""
        atexit.unregister(self.close)
        self._source.close()
