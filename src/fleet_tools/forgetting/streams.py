"""Streams that no job publishes any more, and the caches of those who serve: without the rows of some keys."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from fleet.errors import StreamError, UsageError
from fleet.stream import StreamHead, TableChanges
from fleet.stream.batches import pack, unpack
from fleet.stream.sinks import open_sink
from fleet_tools.forgetting.patterns import Patterns

LIVE_S = 15.0
"""A server that publishes puts a batch at least every five seconds."""
HEAD = "stream.json"


def streams_below(folder: Path) -> list[Path]:
    """The folders of streams in a folder and in those below it."""
    return [Path(top) for top, _, names in os.walk(folder) if HEAD in names]


def refuse_live(home: Path) -> None:
    """UsageError if a job publishes there now."""
    newest = max((batch.stat().st_mtime for batch in home.glob("batches/*/shard-*/*")), default=0.0)
    if time.time() - newest < LIVE_S:
        raise UsageError(f"{home} is in use: a job publishes there; have the job call fleet.forget()")


def forget_in_stream(home: Path, patterns: Patterns) -> int:
    """Write batches anew that have rows which are meant; how many."""
    changed = 0
    for path in sorted(home.glob("batches/*/shard-*/*")):
        if not path.name.isdecimal():
            path.unlink(missing_ok=True)  # nobody finished it
            continue
        try:
            batch = unpack(np.fromfile(path, np.uint8), str(path))
        except StreamError:
            path.unlink()  # who needs it takes a base
            changed += 1
            continue
        tables = {name: _without(one, patterns) for name, one in batch.tables.items() if patterns.is_meant(name)}
        if all(tables[name] is one for name, one in batch.tables.items() if name in tables):
            continue
        blob, new = pack(replace(batch, tables={**batch.tables, **tables})), path.with_name(f".{path.name}.again")
        new.write_bytes(blob)
        os.replace(new, path)
        changed += 1
    return changed


def _without(changes: TableChanges, patterns: Patterns) -> TableChanges:
    gone, was_gone = patterns.among(changes.keys), patterns.among(changes.gone)
    if not gone.any() and not was_gone.any():
        return changes
    patterns.add_rows(np.array(changes.values[gone]))
    return TableChanges(changes.keys[~gone], changes.values[~gone], changes.gone[~was_gone])


def is_purged(url: str, forgotten: int) -> bool:
    """Whether the newest base of a stream has none of the rows that servers have forgotten, and nothing is older."""
    sink = open_sink(url)
    try:
        text = sink.head()
        if text is None:
            return False
        head = StreamHead.from_text(text, url)
        if head.forgotten < forgotten:
            return False
        alone = [one.name for one in sink.bases.glob("base-*")] == [head.base.folder]
        spans = [sink.span(head.stream, shard)[0] for shard in range(head.num_shards)]
        return alone and all(not first or first >= least for first, least in zip(spans, head.base.numbers, strict=True))
    finally:
        sink.close()


def clear_caches(folder: Path) -> tuple[int, int]:
    """Remove mapped files of `fleet-serve` that nobody uses; how many, and how many are in use."""
    removed = used = 0
    for path in (*folder.rglob("*.base"), *folder.rglob("*.base-draft")):
        with suppress(FileNotFoundError), path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                used += 1
                continue
            path.unlink()
            removed += 1
    return removed, used
