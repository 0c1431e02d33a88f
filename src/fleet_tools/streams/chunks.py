"""Chunks of partitions, read patiently: a broker that is away is waited for, and what it has deleted is missed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any, TypeVar

from fleet.data.reading.feed import Feed, FeedPartition
from fleet.data.shards.workers import Workers
from fleet.data.streams.contract import Chunk, Stream, StreamRecord, StreamUrl
from fleet.errors import CommunicationError, UsageError
from fleet.observe.waits.waiting import Awaited, LongWait
from fleet_tools.streams.opening import lost, open_stream
from fleet_tools.streams.partitions import StreamPartitions

T = TypeVar("T")
RETRY_S, MOST_RETRY_S = 0.05, 1.0
"""The pause before another try, which doubles."""


class ChunkReader:
    """Reads chunks of any partition, over one connection for each stream until `close`. Used from one thread."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._streams: dict[StreamUrl, Stream] = {}

    def divided(self, urls: Sequence[StreamUrl], workers: Workers) -> StreamPartitions:
        """The partitions of streams, divided among workers."""
        return StreamPartitions(urls, {str(url): self._partitions(url) for url in urls}, workers)

    def _partitions(self, url: StreamUrl) -> dict[str, Any]:
        stream = self._patiently(url, lambda: open_stream(url), threading.Event())
        assert stream is not None  # nobody stops it
        with closing(stream):
            return {"made": stream.made, "names": list(stream.partitions)}

    def read(self, part: FeedPartition, most: int | None, stopped: threading.Event) -> Chunk | None:
        """What has come of a partition, at most so many records; None: nothing, or `stopped`."""
        if not part.is_checked and self._ask(part.url, lambda stream: check(part, stream), stopped) is None:
            return None
        place = part.position or 0
        if (found := self._ask(part.url, lambda stream: stream.read(part.name, place), stopped)) is None:
            return None
        records, behind = found
        num = len(records) if most is None else min(len(records), most)
        if (until := self._feed.until) is not None:
            assert not isinstance(until, datetime)  # it was made a number
            num = next((at for at, one in enumerate(records[:num]) if one.time_s >= until), num)
            is_cut = records[num].time_s >= until if num < len(records) else False
            part.is_over = is_cut or (not records and time.time() >= until)
        if num < len(records):
            records, behind = records[:num], records[num].position
        if records:
            return chunk_of(part, place, behind, records)
        part.position = behind
        return None

    def read_again(self, part: FeedPartition, first: int, last: int, stopped: threading.Event) -> Chunk | None:
        """A chunk that a former life has read; None: `stopped`."""
        records: list[StreamRecord] = []
        place = first
        while place < last:
            at = place
            if (found := self._ask(part.url, lambda stream: stream.read(part.name, at), stopped)) is None:  # noqa: B023
                return None
            if not found[0]:  # `last` may be behind records of other subjects, which are not read here
                if (bounds := self._ask(part.url, lambda stream: stream.bounds(part.name), stopped)) is None:
                    return None
                if bounds[0] > place or not records:
                    raise lost(part.path, place, max(bounds[0], last))
                if last > bounds[1]:
                    raise _too_short(part.path, bounds[1], last)
                break
            place = found[1]
            records += [one for one in found[0] if one.position < last]
        return chunk_of(part, first, last, records)

    def close(self) -> None:
        """Let go of the brokers."""
        while self._streams:
            self._streams.popitem()[1].close()

    def _ask(self, url: StreamUrl, ask: Callable[[Stream], T], stopped: threading.Event) -> T | None:
        def connected() -> T:
            if url not in self._streams:
                self._streams[url] = open_stream(url)
            return ask(self._streams[url])

        return self._patiently(url, connected, stopped)

    def _patiently(self, url: StreamUrl, ask: Callable[[], T], stopped: threading.Event) -> T | None:
        started, pause_s = time.monotonic(), RETRY_S
        with LongWait("this worker") as wait:
            while not stopped.is_set():
                try:
                    return ask()
                except ConnectionError as error:
                    if (waited_s := time.monotonic() - started) >= self._feed.away_s:
                        raise CommunicationError(
                            f"{url}: {error}, for {waited_s:.0f} s; start the broker, mend the URL, or wait longer "
                            "(away_s)"
                        ) from error
                    if wait.is_due:
                        wait.tell(Awaited(f"the broker of {url}: {error}", is_limited=True))
                    stopped.wait(pause_s)
                    pause_s = min(2 * pause_s, MOST_RETRY_S)
        return None


def check(part: FeedPartition, stream: Stream) -> bool:
    """See that the broker still has what comes next; UsageError if not."""
    first, end = stream.bounds(part.name)
    if part.position is None:
        part.position = first
    if part.position < first:
        raise lost(part.path, part.position, first)
    if part.position > end:
        raise _too_short(part.path, end, part.position)
    part.is_checked = True
    return True


def _too_short(path: str, end: int, position: int) -> UsageError:
    """A position is behind all that there is."""
    return UsageError(
        f"{path} ends at {end:,} and this position at {position:,}: it was made anew since; begin without the position"
    )


def chunk_of(part: FeedPartition, first: int, last: int, records: Sequence[StreamRecord]) -> Chunk:
    """Records as what is read at once."""
    return Chunk(part.path, first, last, sum(len(one.value) for one in records), tuple(records))
