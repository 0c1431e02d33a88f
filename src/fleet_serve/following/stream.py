"""Whoever serves: a base first, then each batch as soon as it is there, in the order of its shard.

stream = follow("/data/clicks")
base = stream.base                        # load the inference copy base.folder
numbers = list(base.numbers)
while True:
    try:
        for batch in stream.batches(numbers, time.monotonic() + 1.0):
            apply(batch)
            numbers[batch.shard] = batch.number
    except StartOverError:
        base = stream.next_base(numbers)  # load it beside the old one, and go on with its numbers
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from fleet.errors import DeadlineError, StreamError
from fleet.stream.batches import (
    ChangeBatch,
    DamagedBatchError,
    MissingBatchError,
    RepeatedBatchError,
    StartOverError,
    unpack,
)
from fleet.stream.head import StreamBase, StreamHead
from fleet.stream.sinks import open_sink
from fleet_serve.following.notices import FolderNotices, SinkNotices, notices_of

PATIENCE_S = 2.0
"""How long a batch may be missing, or damaged, before a base is needed."""


class Places:
    """How far a follower is in each shard: takes batches in order, and nothing else."""

    def __init__(self, stream: str, after: list[int], marks: dict[int, tuple[int, str]] | None = None) -> None:
        """`after`: the last number of each shard that was taken, or that is in the base; `marks`: of what was taken."""
        self._stream = stream
        self._marks = {} if marks is None else marks
        self.numbers = list(after)
        """The last batch of each shard that was taken."""

    def take(self, shard: int, blob: bytes, where: str = "a batch") -> ChangeBatch:
        """The next batch of a shard; a StartOverError, and nothing was taken, if the bytes are not that."""
        batch, wanted = unpack(blob, where), self.numbers[shard] + 1
        if batch.stream != self._stream:
            raise StartOverError(f"{where} is of stream {batch.stream!r:.60}, not {self._stream}; take the newest base")
        if batch.shard != shard:
            raise DamagedBatchError(f"{where} is damaged: it is of shard {batch.shard}; take the newest base")
        if batch.number != wanted:
            kind = MissingBatchError if batch.number > wanted else RepeatedBatchError
            raise kind(shard, wanted, batch.number)
        last, mark = self._marks.get(shard, (0, ""))
        if last == wanted - 1 and mark and batch.after and batch.after != mark:
            raise StartOverError(
                f"{where} follows another batch {last} than that which was taken: it was replaced; take the newest base"
            )
        self.numbers[shard], self._marks[shard] = wanted, (wanted, batch.mark)
        return batch


class Followed:
    """A stream that is followed. One thread at a time."""

    def __init__(self, url: str) -> None:
        self._sink = open_sink(url)
        self._where = self._sink.url
        self._looked_at = 0.0
        self._needs_since = 0.0
        """Since when batches do not lead on; 0: they do."""
        self._trouble: dict[tuple[int, int], float] = {}
        """Since when a batch is missing or damaged, by shard and number."""
        self._noticing: tuple[str, FolderNotices | SinkNotices] | None = None
        """What wakes up, and for which stream."""
        self._marks: dict[int, tuple[int, str]] = {}
        """The last batch that was taken of each shard, and its mark."""
        try:
            self.head = self._read()
            """What the stream was when it was last looked at."""
        except BaseException:
            self._sink.close()
            raise

    @property
    def base(self) -> StreamBase:
        """The base to begin with; its folder is a whole path."""
        return replace(self.head.base, folder=str(self._sink.bases / self.head.base.folder))

    def refresh(self) -> StreamHead:
        """What the stream is now: it may have a newer base, or be another."""
        self.head = self._read()
        return self.head

    def next_base(self, numbers: Sequence[int], timeout_s: float = 600.0) -> StreamBase:
        """The base that leads on for a follower which cannot go on at `numbers`; waits until there is one.

        DeadlineError if there is none in time: it goes on serving what it has, and asks again.
        """
        began, stream = time.monotonic(), self.head.stream
        self._needs_since = self._needs_since or began
        asked = self._sink.bases / f"wanted-by-{os.uname().nodename}-{os.getpid()}"
        while True:
            base = self.refresh().base
            if self.head.stream != stream or any(new > old for new, old in zip(base.numbers, numbers, strict=True)):
                self._needs_since = 0.0
                with suppress(OSError):
                    asked.unlink()
                return self.base
            now = time.monotonic()
            if now - self._needs_since >= PATIENCE_S:
                with suppress(OSError):  # who may only read there waits for the job's next one
                    asked.touch()
            if now - began >= timeout_s:
                raise DeadlineError(f"waited {timeout_s:g} s for a base of {self._where} behind {list(numbers)}")
            time.sleep(0.05)

    def batches(self, after: Sequence[int], deadline: float) -> Iterator[ChangeBatch]:
        """Each batch behind the numbers `after`, of any shard, as soon as it is there, until time.monotonic() is
        `deadline`.

        A StartOverError where batches do not lead on: a gap, a damaged or repeated one that stays so, another stream.
        """
        head = self.head
        if len(after) != head.num_shards:
            raise StartOverError(f"{self._where} has {head.num_shards} shards, not {len(after)}; take its base")
        places = Places(head.stream, list(after), self._marks)
        while True:
            found = 0
            for shard in range(head.num_shards):
                while (batch := self._next(places, shard)) is not None:
                    found += 1
                    yield batch
            now = time.monotonic()
            if now >= deadline:
                return
            if not found:
                self._look_around(places, now)
                self._notices(head).wait(deadline - now)

    def close(self) -> None:
        """Let go of connections."""
        if self._noticing is not None:
            self._noticing[1].close()
            self._noticing = None
        self._sink.close()

    def _notices(self, head: StreamHead) -> FolderNotices | SinkNotices:
        if self._noticing is None or self._noticing[0] != head.stream:
            if self._noticing is not None:
                self._noticing[1].close()
            self._noticing = head.stream, notices_of(self._sink, head.stream, head.num_shards)
        return self._noticing[1]

    def _next(self, places: Places, shard: int) -> ChangeBatch | None:
        """The next batch of a shard; None if it is not there, or damaged, which may pass."""
        number = places.numbers[shard] + 1
        blob = self._sink.get(self.head.stream, shard, number)
        if blob is None:
            return None
        where = f"batch {number} of shard {shard} in {self._where}"
        try:
            batch = places.take(shard, blob, where)
        except DamagedBatchError:
            if not self._waited(shard, number):
                return None
            raise
        self._trouble.pop((shard, number), None)
        return batch

    def _waited(self, shard: int, number: int) -> bool:
        """Whether a batch has been missed for long; its wait begins with the first question."""
        now = time.monotonic()
        return now - self._trouble.setdefault((shard, number), now) >= PATIENCE_S

    def _look_around(self, places: Places, now: float) -> None:
        """Nothing is there: StartOverError if that is for good."""
        if now - self._looked_at < min(0.5, PATIENCE_S / 2):
            return
        self._looked_at = now
        if (found := self._read()).stream != self.head.stream:
            raise StartOverError(f"{self._where} has begun anew, as stream {found.stream}; take its base")
        for shard, last in enumerate(places.numbers):
            oldest, newest = self._sink.span(self.head.stream, shard)
            if newest <= last:
                continue
            has_next = oldest <= last + 1 and self._sink.get(self.head.stream, shard, last + 1) is not None
            if not has_next and self._waited(shard, last + 1):
                raise MissingBatchError(shard, last + 1, max(oldest, last + 2))

    def _read(self) -> StreamHead:
        text = self._sink.head()
        if text is None:
            raise StreamError(f"no stream of changes in {self._where}; start the job that publishes there")
        return StreamHead.from_text(text, f"{self._where}{os.sep}stream.json")


def follow(url: str, timeout_s: float = 0.0) -> Followed:
    """Follow the stream at a URL; StreamError if there is none within `timeout_s`, or not one that is known here."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return Followed(url)
        except StreamError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)
