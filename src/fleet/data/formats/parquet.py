"""Parquet as a format of files: a block is some row groups, and of those only the columns of the schema are read."""

from __future__ import annotations

import os
import threading
from typing import Any

from fleet.data.columns.blocks import Block, Problems
from fleet.data.columns.records import Records
from fleet.data.columns.schema import Schema
from fleet.data.formats.arrow import changed, damaged, source_of
from fleet.data.formats.arrow_types import check_columns
from fleet.data.formats.from_arrow import records_of
from fleet.data.places.opening import packing_of, size_of
from fleet.data.places.urls import is_url, needed

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
