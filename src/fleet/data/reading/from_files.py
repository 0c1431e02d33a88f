"""`fleet.data.files` and `fleet.data.load`: from files to this worker's batches, or to samples in memory.

Which format a file has: by the end of its name, by the schema, or as the user says.
"""

from __future__ import annotations

import importlib
import os
import weakref
from collections.abc import Callable
from typing import Any, cast, get_args

import numpy as np
import torch

from fleet._lazy import tool
from fleet.api import fleet
from fleet.checks import count_of, flag_of
from fleet.cores import num_cores
from fleet.data.columns.blocks import Block, FileFormat, Problems
from fleet.data.columns.records import Batch, Records, join
from fleet.data.columns.schema import Schema
from fleet.data.places.opening import Paths, list_files, packing_of
from fleet.data.queue import PieceSource, piece_source
from fleet.data.reading.feed import Feed
from fleet.data.reading.feed_shard import FeedShard
from fleet.data.reading.file_shard import FileShard
from fleet.data.reading.growing import Follow, Watched
from fleet.data.reading.growing_shard import GrowingShard
from fleet.data.reading.piece_batches import PieceReader
from fleet.data.reading.piece_order import FileSet, Index
from fleet.data.reading.read_ahead import ReadAhead
from fleet.data.shards.base import Uneven
from fleet.data.shards.workers import Workers
from fleet.data.streams.contract import StreamUrl
from fleet.errors import NotReadyError, NotSupportedError, UsageError, UsageTypeError
from fleet.observe.bar import progress

_CALL = "fleet.data.files"
_num_made: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
"""How many readers with a queue each job has: they are told apart by the order in which they are made."""


def files(
    paths: Paths,
    schema: Schema,
    batch_size: int,
    *,
    shuffle: bool = False,
    seed: int = 0,
    uneven: Uneven = "join",
    queue: bool = False,
    threads: int | None = None,
    bad: float = 0.001,
    follow: bool | float | Follow | Feed = False,
    format: FileFormat | str | None = None,  # as the files' format is called
) -> FileShard | GrowingShard | FeedShard:
    """This worker's batches of files; every worker calls it with the same arguments, after `fleet.init()`.

    `paths`: a path, a glob, a folder, a URL of fsspec, or a list of those. The files are cut into pieces, and each
    worker reads a contiguous part of about as many bytes as the others; with `queue` workers take pieces one by one, so
    that fast ones read more. With `shuffle` pieces come in an order of `seed` and the epoch, and the rows of each, from
    all over the files, are permuted together.

    A batch is a `fleet.data.Batch` of `batch_size` samples, the last of an epoch may be smaller. `threads` read ahead.
    Lines that cannot be read are left out; more than a share of `bad` of them is an error. `uneven` is what it is for
    `fleet.data.shard`.

    `follow`: `paths` is a folder that grows. Each file that comes is read once, by one worker, until a file `_DONE`
    lies there, or nothing has come for so many seconds; see `fleet.data.Follow`.

    `nats://host:port/STREAM` and `kafka://host:port/TOPIC` are streams of lines, whose partitions are divided among
    workers: what is there is read, and with `follow` what comes later too, until nothing has come for so many seconds;
    see `fleet.data.Feed`.
    """
    workers = Workers(fleet, _CALL, has_queue=queue is True)
    count_of("batch_size", batch_size)
    flag_of("shuffle", shuffle)
    flag_of("queue", queue)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise UsageTypeError(f"seed must be an int, got {seed!r}")
    if uneven not in get_args(Uneven):
        raise UsageError(f"uneven must be 'pad', 'drop' or 'join', got {uneven!r}")
    if queue and uneven != "join":
        raise UsageError(f"queue=True gives workers different numbers of batches; use uneven='join', not {uneven!r}")
    num_threads = default_threads() if threads is None else count_of("threads", threads)
    if urls := _streams(paths):
        _refuse_with_follow(workers, uneven, queue)
        tool("streams").refuse_with(urls[0], follow, threads, format)
        _check(schema)
        return FeedShard(urls, workers, schema, batch_size, shuffle, seed, bad, Feed.of(follow))
    if isinstance(follow, Feed):
        raise UsageError(
            "fleet.data.Feed is for streams, nats:// or kafka://; a folder takes follow=fleet.data.Follow()"
        )
    if (how := Follow.of(follow)) is not None:
        _refuse_with_follow(workers, uneven, queue)
        _check(schema)
        reader = PieceReader(FileSet({}, {}, shuffle, seed), schema, batch_size, num_threads, Problems(bad))
        return GrowingShard(reader, workers, Watched(paths), formats(schema, format), how)
    found = file_set(paths, schema, format, shuffle, seed)
    reader = PieceReader(found, schema, batch_size, num_threads, Problems(bad))
    return FileShard(reader, workers, uneven=uneven, queue=_source() if queue else None)


def _streams(paths: Paths) -> list[StreamUrl]:
    """The streams that are meant; none where files are."""
    given = [os.fspath(one) for one in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    return cast(list[StreamUrl], tool("streams").streams_of(given)) if any("://" in one for one in given) else []


def _refuse_with_follow(workers: Workers, uneven: Uneven, queue: bool) -> None:
    if queue or uneven != "join":
        raise UsageError(
            "follow= and streams give each file or partition to one worker: use them without queue=True and with "
            "uneven='join'"
        )
    if workers.is_collective:
        raise NotSupportedError(
            "follow= and streams are for jobs with servers, or one worker: in a collective job every step would wait "
            "until each worker has a file, or a record"
        )


def file_set(paths: Paths, schema: Schema, format: FileFormat | str | None, shuffle: bool, seed: int) -> FileSet:
    """The files that are meant, each with its format."""
    _check(schema)
    sizes = dict(list_files(paths))
    format_for = formats(schema, format)
    made = FileSet(sizes, {path: format_for(path) for path in sizes}, shuffle, seed)
    if not made.blocks:
        raise UsageError(f"the files have no samples: {', '.join(list(sizes)[:3])}{', ...' * (len(sizes) > 3)}")
    return made


def _check(schema: Schema) -> None:
    if not callable(getattr(schema, "batch", None)):
        raise UsageTypeError(f"schema must be a fleet.data.Schema, such as fleet.data.criteo(), got {schema!r}")


def formats(schema: Schema, given: FileFormat | str | None) -> Callable[[str], FileFormat]:
    """The format of a file by its path; one is made for each kind of file."""
    made: dict[str, FileFormat] = {}

    def format_for(path: str) -> FileFormat:
        name = name_of(path)
        if name not in made:
            made[name] = format_of(path, schema, given)
        return made[name]

    return format_for


def default_threads() -> int:
    """One, or two where training leaves enough cores."""
    return 1 if num_cores() < 4 else 2


def _source() -> PieceSource:
    number = _num_made[fleet] = _num_made.get(fleet, 0) + 1
    return piece_source(fleet, f"files/{number}")


_HOMES = {
    "text": ("fleet.data.formats.text", "TextFormat"),
    "parquet": ("fleet.data.formats.arrow", "ParquetFormat"),
    "arrow": ("fleet.data.formats.arrow", "ArrowFormat"),
}
"""Name of a format -> its class, which is made of a schema and imported when first used."""

_ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}


def format_of(path: str, schema: Any, given: str | FileFormat | None = None) -> FileFormat:
    """How a file is read. `given`: the name of a format (text, parquet, arrow), or one of one's own.

    Otherwise the schema says it, or the end of the file's name; the rest is text.
    """
    if given is not None and not isinstance(given, str):
        if not (callable(getattr(given, "cut", None)) and callable(getattr(given, "read", None))):
            raise UsageTypeError(f"format must be one of {', '.join(_HOMES)} or have cut() and read(), got {given!r}")
        return given
    if not isinstance(schema, Schema):
        raise UsageTypeError(f"the schema must be a fleet.data.Schema, got {schema!r}")
    if given is None and (own := schema.file_format()) is not None:
        return cast(FileFormat, own)
    name = given or name_of(path)
    if name not in _HOMES:
        raise UsageError(f"format must be one of {', '.join(_HOMES)}, got {given!r}")
    module, kind = _HOMES[name]
    return cast(FileFormat, getattr(importlib.import_module(module), kind)(schema))


def name_of(path: str) -> str:
    """The name of the format that a file seems to have."""
    plain = path[: len(path) - len(packing_of(path) or "")]
    return _ENDINGS.get(os.path.splitext(plain)[1].lower(), "text")


LONG_BYTES = 200 << 20
"""Reading files larger than this is worth a progress bar."""


class Examples:
    """Samples in memory, by column. `fleet.data.shard(examples, batch_size, shuffle=True)` divides them.

    Any order of all samples is possible there, which files cannot give. Every worker holds all of them.
    """

    def __init__(self, schema: Schema, records: Records) -> None:
        self.schema = schema
        self._records = records

    def __len__(self) -> int:
        return self._records.num

    def batch(self, indices: torch.Tensor) -> Batch:
        """The samples at some positions, in memory of their own."""
        return self.schema.batch(self._records.take(indices.numpy()))

    def take(self, indices: torch.Tensor | Index) -> Examples:
        """Some of them, as for a part to train on and one to validate with: `torch.randperm(n)[:n // 10]`."""
        places = np.asarray(indices, dtype=np.int64)
        if places.ndim != 1 or (len(places) and not 0 <= places.min() <= places.max() < len(self)):
            raise UsageError(f"take() needs a row of positions from 0 to {len(self) - 1}")
        return Examples(self.schema, self._records.take(places))


def load(
    paths: Paths,
    schema: Schema,
    *,
    threads: int | None = None,
    bad: float = 0.001,
    format: FileFormat | str | None = None,  # as the files' format is called
) -> Examples:
    """All samples of files, in memory, in the order of the files; also without `fleet.init()`.

    Arguments are those of `fleet.data.files`. Every worker loads everything: this is for data that fits into the
    memory of each.
    """
    num_threads = default_threads() if threads is None else count_of("threads", threads)
    found = file_set(paths, schema, format, shuffle=False, seed=0)
    problems = Problems(bad)

    def read(block: Block) -> Records:
        return found.formats[block.path].read(block, problems)

    blocks = found.blocks
    ahead: ReadAhead[Block, Records] = ReadAhead(
        iter(blocks),
        read,
        num_threads=num_threads,
        most_ahead=2 * num_threads,
        size_of=lambda block: block.size,
        name_of=lambda block: block.path,
    )
    shows = found.total_bytes >= LONG_BYTES and _is_first()
    with ahead:
        bar = progress(ahead, "loading", len(blocks), enabled=shows, unit="block")
        parts = [records for _, records in bar]
    problems.finish()
    return Examples(schema, join(parts))


def _is_first() -> bool:
    try:
        return fleet.is_first_worker()
    except NotReadyError:
        return True
