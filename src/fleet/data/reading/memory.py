"""`fleet.data.load`: the samples of files in memory, for data that fits there."""

from __future__ import annotations

import numpy as np
import torch

from fleet.api import fleet
from fleet.checks import count_of
from fleet.data.columns.batch import Batch
from fleet.data.columns.blocks import Block, FileFormat, Problems
from fleet.data.columns.records import Records, join
from fleet.data.columns.schema import Schema
from fleet.data.places.listing import Paths
from fleet.data.reading.from_files import default_threads, file_set
from fleet.data.reading.piece_order import Index
from fleet.data.reading.read_ahead import ReadAhead
from fleet.errors import NotReadyError, UsageError
from fleet.observe.bar import progress

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
