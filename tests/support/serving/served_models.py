"""Folders and streams to serve, made without a job."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fleet.checkpoint import InferenceIndex, Unseen, begin, commit, export_table
from fleet.ps.held.holdings import make_table
from fleet.ps.job.entries import AlwaysEntry
from fleet.ps.job.named_spec import InitializerSpec, RuleSpec
from fleet.ps.job.spec import TableSpec
from fleet.stream import ChangeBatch, StreamBase, StreamHead, TableChanges, TableHead
from fleet.stream.batches import pack
from fleet.stream.sinks import FolderSink

Keys = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
INITIAL = Unseen("initial", "uniform", {"low": -1.0, "high": 1.0}, 7)


def save_copy(
    folder: Path, tables: Mapping[str, tuple[Keys, Floats]], *, servers: int = 1, unseen: Unseen | None = None
) -> Path:
    """An inference copy with these rows, as so many servers would write it."""
    writing = begin(folder, InferenceIndex)
    parts = []
    for name, (keys, values) in tables.items():
        spec = TableSpec(name, values.shape[1], RuleSpec("sgd"), InitializerSpec("constant", ()), AlwaysEntry())
        for server in range(servers):
            table, own = make_table(spec), keys % servers == server
            table.assign(keys[own], values[own])
            parts.append(export_table(table, name, writing, server, servers, dtype="float32", unseen=unseen))
    return commit(writing, folder, InferenceIndex(1, servers, tuple(parts)))


class WrittenStream:
    """A stream in a folder, whose batches a test makes; `rows` is what a follower should have."""

    def __init__(self, folder: Path, widths: Mapping[str, int], *, shards: int = 2, name: str = "one") -> None:
        self.folder, self.name, self.shards = folder, name, shards
        self.sink = FolderSink(str(folder))
        self.widths = widths
        self.rows: dict[str, dict[int, Floats]] = {table: {} for table in widths}
        self.numbers = [0] * shards

    def base(self) -> None:
        """All rows as a new base."""
        folder = f"base-{sum(self.numbers):06}-{self.name}"
        tables = {
            table: (np.array(list(rows), np.int64), np.array(list(rows.values()), np.float32).reshape(-1, width))
            for (table, rows), width in zip(self.rows.items(), self.widths.values(), strict=True)
        }
        save_copy(self.sink.bases / folder, tables)
        heads = {table: TableHead(width) for table, width in self.widths.items()}
        base = StreamBase(folder, tuple(self.numbers))
        self.sink.put_head(StreamHead(self.name, self.shards, heads, {}, 0.5, base).to_text())

    def change(self, shard: int, value: float, keys: Keys, gone: Keys | None = None, *, whole: bool = True) -> None:
        """One batch: all tables have `value` in these rows."""
        gone = np.empty(0, np.int64) if gone is None else gone
        tables = {}
        for table, width in self.widths.items():
            tables[table] = TableChanges(keys, np.full((len(keys), width), value, np.float32), gone)
            self.rows[table] |= {int(key): np.full(width, value, np.float32) for key in keys}
            for key in gone.tolist():
                self.rows[table].pop(key, None)
        self.put(shard, tables, whole=whole)

    def put(
        self,
        shard: int,
        tables: Mapping[str, TableChanges],
        dense: Mapping[tuple[str, int], Floats] | None = None,
        *,
        whole: bool = True,
    ) -> None:
        """A batch as it is."""
        number = self.numbers[shard] = self.numbers[shard] + 1
        now = time.time()
        last = number if whole else number - 1
        batch = ChangeBatch(self.name, shard, number, tables, dense or {}, now, now, number, last)
        self.sink.put(self.name, shard, number, pack(batch))
