"""Records of a stream to columns: a record is a line, which is parsed as a line of a file is."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from fleet.data.columns.blocks import MOST_TOLD, Block, Problems
from fleet.data.columns.records import Records
from fleet.data.columns.schema import Schema
from fleet.data.formats.text import TextFormat
from fleet.data.formats.text_plan import TextPlan
from fleet.data.reading.feed import Feed
from fleet.data.streams.contract import Chunk
from fleet.errors import NotSupportedError, UsageError
from fleet.observe.metrics.registry import Sample
from fleet_tools.streams.dead_letters import DeadLetters

Bad = list[tuple[int, str]]
"""Records that cannot be read, by their place, and why."""


class LineFormat:
    """How chunks become records: a `FileFormat`. It also counts them."""

    def __init__(self, schema: Schema, feed: Feed, worker: int) -> None:
        time = feed.time
        if schema.header or schema.columns is None:
            raise UsageError("a stream has no first line with the names of its columns; give columns=[...], no header")
        if schema.file_format() is not None:
            raise NotSupportedError(
                f"a stream is of lines of text, and {type(schema).__name__} is not: give a fleet.data.Schema"
            )
        if time is not None and time not in {one.name for one in schema.wide}:
            raise UsageError(f'time={time!r} must be among the numbers: fleet.data.Number({time!r}, dtype="float64")')
        TextFormat(schema)  # refuses what no text can have
        self.schema = schema
        self._plan = TextPlan(schema, tuple(schema.columns))
        self._time, self._late_s, self._dead = time, feed.late_s, None
        if feed.dead_letters is not None:
            self._dead = DeadLetters(feed.dead_letters, worker, feed.dead_bytes)
        self._counts = {"read": 0, "late": 0, "dead": 0}
        self._newest_s = 0.0

    def cut(self, path: str, most_bytes: int) -> list[Block]:  # noqa: ARG002
        """Nothing: a stream is no file."""
        return []

    def read(self, block: Block, problems: Problems) -> Records:
        """The rows of a chunk; a record of nothing is none, and a bad one a dead letter."""
        assert isinstance(block, Chunk)
        given = [record for record in block.records if record.value]
        lines = [record.value.rstrip(b"\r\n") + b"\n" for record in given]
        bad: Bad = [(place, "a record of several lines") for place, one in enumerate(lines) if one.count(b"\n") > 1]
        wrong = {place for place, _ in bad}
        bad += self._bad(lines, [place for place in range(len(lines)) if place not in wrong])
        bad.sort()
        dead = dict(bad)
        good = [place for place in range(len(lines)) if place not in dead]
        records, _, _ = self._parsed(lines, good)
        found = [(given[place], why) for place, why in bad]
        if self._dead is not None and found:
            self._dead.add(block.path, found)
        told = [(block.path, record.position, why) for record, why in found[:MOST_TOLD]]
        self._count(records, [given[place].time_s for place in good], len(bad))
        problems.note(len(lines), told, len(bad))
        return records

    def _parsed(self, lines: Sequence[bytes], places: Sequence[int]) -> tuple[Records, int, Bad]:
        text = np.frombuffer(b"".join([lines[place] for place in places]), dtype=np.uint8)
        records, num, bad = self._plan.parse(text)
        return records, num, [(places[line], why) for line, _, why in bad]

    def _bad(self, lines: Sequence[bytes], places: Sequence[int]) -> Bad:
        """All that cannot be parsed: of many only some are told, so halves are looked at."""
        if not places:
            return []
        records, _, bad = self._parsed(lines, places)
        num = len(places) - records.num
        if len(bad) == num:
            return bad
        if len(places) == 1:
            return [(places[0], "a line of nothing")]
        half = len(places) // 2
        return self._bad(lines, places[:half]) + self._bad(lines, places[half:])

    def _count(self, records: Records, came_s: list[float], num_bad: int) -> None:
        came = np.asarray(came_s)
        happened = came
        if self._time is not None:
            place = [slot.name for slot in records.slots].index(self._time)
            happened = records.columns[place].values[:, 0].astype(np.float64)
        self._counts["read"] += records.num
        self._counts["late"] += int((happened < came - self._late_s).sum())
        self._counts["dead"] += num_bad
        if len(happened):
            self._newest_s = max(self._newest_s, float(happened.max()))

    def samples(self) -> Iterator[Sample]:
        """The figures of this reader."""
        for what, num in self._counts.items():
            yield Sample("fleet_worker_feed_records_total", num, {"what": what})
        if self._newest_s:
            yield Sample("fleet_worker_feed_lag_seconds", max(0.0, time.time() - self._newest_s))
