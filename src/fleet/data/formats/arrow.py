"""Arrow IPC and Parquet as formats of files.

Arrow files with random access (.arrow, .feather) are read in record batches, streams as a whole. A block of a Parquet
file is some row groups, and of those only the columns of the schema are read.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

from fleet.data.columns.blocks import Block, Problems
from fleet.data.columns.records import Records
from fleet.data.columns.schema import Schema
from fleet.data.formats.arrow_types import check_columns
from fleet.data.formats.from_arrow import records_of
from fleet.data.places.opening import open, open_as_it_is, packing_of, size_of
from fleet.data.places.urls import is_url, local_path, needed
from fleet.errors import UsageError

WITH_RANDOM_ACCESS = b"ARROW1"
FEATHER_1 = b"FEA1"


def source_of(path: str) -> AbstractContextManager[Any]:
    """What pyarrow can read at any place: a local file by itself, a URL through fsspec, a packed file whole."""
    pa = needed("pyarrow", f"files like {path}")
    if packing_of(path) is not None:
        with open(path) as packed:
            return cast(AbstractContextManager[Any], pa.BufferReader(packed.read()))
    source = open_as_it_is(path)
    if is_url(local_path(path)):
        return source
    source.close()
    return cast(AbstractContextManager[Any], pa.OSFile(local_path(path)))


@contextmanager
def damaged(path: str, kind: str) -> Iterator[None]:
    """What pyarrow cannot read, as an error that names the file."""
    pa = needed("pyarrow", f"files like {path}")
    try:
        yield
    except UsageError:
        raise
    except (pa.ArrowException, OSError, EOFError) as error:
        text = " ".join(str(error).split())
        raise UsageError(f"{path} is no {kind} file, or damaged: {text[:200]}") from error


def changed(path: str) -> UsageError:
    """For a file that is not any more what it was when it was cut."""
    return UsageError(f"{path} has changed since the job began; leave the files alone until it has ended")


class ArrowFormat:
    """A `FileFormat`. What a file is, its first bytes tell."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def cut(self, path: str, most_bytes: int) -> list[Block]:
        """Record batches, as many as make up `most_bytes`; a file does not tell the size of each: all count the same.

        A stream, and a file that is packed as a whole, is one block.
        """
        size = size_of(path)
        if size == 0:
            return []
        with source_of(path) as source, damaged(path, "Arrow"):
            found = self._opened(path, source)
            check_columns(found.schema, self.schema, path)
            num = getattr(found, "num_record_batches", None)
        if num is None or packing_of(path) is not None:
            return [Block(path, 0, 1 if num is None else num, size)] if num != 0 else []
        each = max(1, num * most_bytes // size)
        return [
            Block(path, first, min(first + each, num), size * (min(first + each, num) - first) // num)
            for first in range(0, num, each)
        ]

    def read(self, block: Block, problems: Problems) -> Records:
        """The rows of a block; those with a label that is no number, or an id that is no int64, are left out."""
        pa = needed("pyarrow", "Arrow files")
        path, first = block.path, block.first
        with source_of(path) as source, damaged(path, "Arrow"):
            found = self._opened(path, source)
            check_columns(found.schema, self.schema, path)
            if hasattr(found, "num_record_batches"):
                if block.last > found.num_record_batches:
                    raise changed(path)
                batches = [found.get_batch(place) for place in range(first, block.last)]
            else:
                batches = list(found)
            table = pa.Table.from_batches(batches, found.schema)
            table.validate(full=True)  # pyarrow believes what a file says about itself

            def first_row() -> int:
                return sum(found.get_batch(place).num_rows for place in range(first)) if first else 0

            return records_of(table, self.schema, path, first_row, problems)

    def _opened(self, path: str, source: Any) -> Any:
        """A reader that looks at the columns of the schema only."""
        ipc = needed("pyarrow.ipc", "Arrow files")
        begin = source.read(len(WITH_RANDOM_ACCESS))
        source.seek(0)
        if begin.startswith(FEATHER_1):
            raise UsageError(f"{path} is Feather of version 1; write it again with version 2, which is Arrow IPC")
        opened = ipc.open_file if begin == WITH_RANDOM_ACCESS else ipc.open_stream
        names = opened(source).schema.names
        source.seek(0)
        wanted = [place for place, name in enumerate(names) if name in self.schema.names]
        options = ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
        return opened(source, options=options)


MOST_FOOTERS = 64
"""How many files' footers are kept: a footer says where the row groups lie."""

MOST_DICTIONARY_BYTES = 256 << 10


class ParquetFormat:
    """A `FileFormat`. Each call reads in the thread that calls, most of the time without the interpreter."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._footers: dict[str, tuple[int, Any]] = {}  # path -> size of the file, its footer
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[ParquetFormat], tuple[Schema]]:
        """For a process of a DataLoader that is not forked: what is known of files is found out again."""
        return ParquetFormat, (self.schema,)

    def cut(self, path: str, most_bytes: int) -> list[Block]:
        """Row groups, as many as make up `most_bytes` of the columns that are read; sizes are those unpacked."""
        if size_of(path) == 0:
            return []
        with self._lock:
            self._footers.pop(path, None)
        with source_of(path) as file, damaged(path, "Parquet"):
            found = self._reader(path, file)
            check_columns(found.schema_arrow, self.schema, path)
            sizes = self._sizes(found)
        if packing_of(path) is not None:
            most_bytes = sum(sizes)
        blocks: list[Block] = []
        first = size = 0
        for place, more in enumerate(sizes):
            if size and size + more > most_bytes:
                blocks.append(Block(path, first, place, size))
                first, size = place, 0
            size += more
        return [*blocks, Block(path, first, len(sizes), size)] if size else blocks

    def _sizes(self, found: Any) -> list[int]:
        wanted = set(self.schema.names)
        names = [found.metadata.schema.column(place).path for place in range(found.metadata.num_columns)]
        places = [place for place, name in enumerate(names) if name in wanted or name.split(".")[0] in wanted]
        groups = [found.metadata.row_group(place) for place in range(found.metadata.num_row_groups)]
        return [
            sum(group.column(place).total_uncompressed_size for place in places) if group.num_rows else 0
            for group in groups
        ]

    def read(self, block: Block, problems: Problems) -> Records:
        """The rows of a block; those with a label that is no number, or an id that is no int64, are left out."""
        path = block.path
        with source_of(path) as file, damaged(path, "Parquet"):
            found = self._reader(path, file)
            check_columns(found.schema_arrow, self.schema, path)
            if block.last > found.metadata.num_row_groups:
                raise changed(path)
            groups = range(block.first, block.last)
            table = found.read_row_groups(list(groups), columns=list(self.schema.names), use_threads=False)

        def first_row() -> int:
            return sum(found.metadata.row_group(place).num_rows for place in range(block.first))

        return records_of(table, self.schema, path, first_row, problems)

    def _reader(self, path: str, file: Any) -> Any:
        """Text comes as dictionaries where these are small, and each of their values is hashed once."""
        parquet = needed("pyarrow.parquet", "Parquet files")
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        with self._lock:
            known, footer = self._footers.get(path, (size, None))
        if known != size:
            raise changed(path)
        if footer is None:
            footer = parquet.read_metadata(file)
            with self._lock:
                while len(self._footers) >= MOST_FOOTERS:
                    self._footers.pop(next(iter(self._footers)))
                self._footers[path] = size, footer
        texts = self._in_dictionaries(footer)
        return parquet.ParquetFile(file, metadata=footer, pre_buffer=is_url(path), read_dictionary=texts)

    def _in_dictionaries(self, footer: Any) -> list[str]:
        """Hashed columns whose dictionary is small in the first row group. Large ones cost more than they save."""
        if not footer.num_row_groups:
            return []
        hashed = {one.name for one in self.schema.all_categories if one.hash and one.bounds is None}
        group = footer.row_group(0)
        columns = [group.column(place) for place in range(footer.num_columns)]
        return [
            one.path_in_schema
            for one in columns
            if one.path_in_schema in hashed
            and one.physical_type == "BYTE_ARRAY"
            and one.dictionary_page_offset is not None
            and one.data_page_offset - one.dictionary_page_offset < MOST_DICTIONARY_BYTES
        ]
