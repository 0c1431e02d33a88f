"""The formats that made-up clicks are written in: text, packed or not, and Parquet."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from fleet.data.places.extras import needed
from fleet.errors import UsageError

_PACKED = {None: "", "gz": ".gz", "zst": ".zst"}
_CODECS = (None, "snappy", "gzip", "zstd", "lz4", "brotli")


class FileWriter(Protocol):
    """A file that is being written."""

    def write(self, source: Any, first: int, last: int) -> None:
        """Add samples."""


def suffix_of(format: str, compression: str | None) -> str:
    """What the names of such files end with; UsageError if there are none such."""
    if format == "tsv":
        if compression not in _PACKED:
            raise UsageError(f'compression of text must be None, "gz" or "zst", got {compression!r}')
        return ".tsv" + _PACKED[compression]
    if format != "parquet":
        raise UsageError(f'format must be "tsv" or "parquet", got {format!r}')
    if compression not in _CODECS:
        raise UsageError(f"compression of Parquet must be one of {', '.join(map(repr, _CODECS))}, got {compression!r}")
    return ".parquet"


@contextmanager
def writer_of(path: Path, format: str, compression: str | None) -> Iterator[FileWriter]:
    """A file to write into; complete at the end of the block."""
    if format == "parquet":
        arrow, parquet = needed("pyarrow", "Parquet files"), needed("pyarrow.parquet", "Parquet files")
        schema = _arrow_schema(arrow)
        with parquet.ParquetWriter(path, schema, compression=compression or "none") as file:
            yield _Parquet(arrow, schema, file)
        return
    with path.open("wb") as plain:
        if compression == "gz":
            with gzip.GzipFile(filename="", fileobj=plain, mode="wb", compresslevel=4, mtime=0) as packed:
                yield _Text(packed)
        elif compression == "zst":
            with needed("zstandard", "files with .zst").ZstdCompressor().stream_writer(plain, closefd=False) as packed:
                yield _Text(packed)
        else:
            yield _Text(plain)


class _Text:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, source: Any, first: int, last: int) -> None:
        self._file.write(source.text(first, last).data)


class _Parquet:
    """A row group for each block."""

    def __init__(self, arrow: Any, schema: Any, file: Any) -> None:
        self._arrow, self._schema, self._file = arrow, schema, file

    def write(self, source: Any, first: int, last: int) -> None:
        label, numbers, categories = source.columns(first, last)
        arrow, count = self._arrow, last - first
        made = [arrow.array(label)]
        for buffers in (*numbers, *categories):
            kind = arrow.int32() if len(buffers) == 2 else arrow.string()
            made.append(arrow.Array.from_buffers(kind, count, [arrow.py_buffer(buffer) for buffer in buffers]))
        self._file.write_batch(arrow.record_batch(made, schema=self._schema))


def _arrow_schema(arrow: Any) -> Any:
    numbers = [(f"I{number}", arrow.int32()) for number in range(1, 14)]
    categories = [(f"C{number}", arrow.string()) for number in range(1, 27)]
    return arrow.schema([("label", arrow.int32()), *numbers, *categories])
