"""Made-up clicks in files: several threads, each file complete before it has its name, nothing written twice."""

from __future__ import annotations

import gzip
import json
import os
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from fleet.checks import count_of
from fleet.data.places.urls import needed
from fleet.errors import UsageError
from fleet.observe import progress

MANIFEST = "_clicks.json"
"""Readers of a folder pass over names that begin so."""

_BLOCK = 32_768

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


class ClicksSource(Protocol):
    """What files are made of: `_native.Clicks`."""

    def text(self, first: int, last: int) -> Any:
        """Samples as lines."""

    def columns(self, first: int, last: int) -> Any:
        """Samples as Arrow has them."""


def write_files(
    source: ClicksSource,
    folder: Path,
    settings: dict[str, Any],
    *,
    files: int,
    format: str,
    compression: str | None,
    threads: int | None,
    shows: bool,
) -> list[Path]:
    """Write samples `settings["first"]` to `settings["last"]`, or find them written; the paths, in order."""
    suffix = suffix_of(format, compression)
    threads = count_of("threads", os.cpu_count() or 1 if threads is None else threads)
    about = {"settings": settings, "format": format, "compression": compression, "files": files}
    paths = [folder / f"clicks-{number:05}-of-{files:05}{suffix}" for number in range(files)]
    if _is_there(folder, about, paths):
        return paths
    folder.mkdir(parents=True, exist_ok=True)
    if strangers := sorted(one.name for one in folder.iterdir() if one.name[0] not in "._" and one not in paths):
        raise UsageError(f"{folder} has other files, such as {strangers[0]}; choose a folder of its own for the clicks")
    first, total = settings["first"], settings["last"] - settings["first"]
    bounds = [first + total * number // files for number in range(files + 1)]
    jobs = list(zip(paths, pairwise(bounds), strict=True))
    _write_all(source, jobs, format, compression, threads, total, shows)
    manifest = {**about, "bytes": {path.name: path.stat().st_size for path in paths}}
    unfinished = _unfinished(folder / MANIFEST)
    unfinished.write_text(json.dumps(manifest, indent=1) + "\n")
    unfinished.replace(folder / MANIFEST)
    return paths


def _is_there(folder: Path, about: dict[str, Any], paths: list[Path]) -> bool:
    """Whether a folder has this data, all of it; UsageError if it has other data."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        found, sizes = {name: manifest[name] for name in about}, dict(manifest["bytes"])
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder / MANIFEST} cannot be read: {error}; remove the folder to make it anew") from error
    if found != json.loads(json.dumps(about)):
        name = next(name for name in about if found[name] != json.loads(json.dumps(about[name])))
        raise UsageError(f"{folder} has clicks made with other {name}; choose another folder, or remove it first")
    return all(path.exists() and path.stat().st_size == sizes.get(path.name) for path in paths)


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _write_all(
    source: ClicksSource,
    jobs: list[tuple[Path, tuple[int, int]]],
    format: str,
    compression: str | None,
    threads: int,
    total: int,
    shows: bool,
) -> None:
    done: queue.SimpleQueue[int | None] = queue.SimpleQueue()  # samples of a block; None: a file has ended
    stop = threading.Event()

    def write(path: Path, part: tuple[int, int]) -> None:
        unfinished = _unfinished(path)
        try:
            with writer_of(unfinished, format, compression) as writer:
                for count in _blocks(source, writer, part, stop):
                    done.put(count)
            if not stop.is_set():
                unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
            done.put(None)

    num_blocks = sum(-(-(last - first) // _BLOCK) for _, (first, last) in jobs)
    with ThreadPoolExecutor(min(threads, len(jobs)), thread_name_prefix="fleet-clicks") as pool:
        futures: list[Future[None]] = []
        try:
            futures += [pool.submit(write, path, part) for path, part in jobs]
            bar = progress(_counted(done, len(jobs), futures), "clicks", num_blocks, enabled=shows, unit="block")
            samples = 0
            for count in bar:
                samples += count
                bar.show(samples=f"{samples:,}/{total:,}")
        finally:
            stop.set()
            for future in futures:
                future.cancel()


def _blocks(source: ClicksSource, writer: FileWriter, part: tuple[int, int], stop: threading.Event) -> Iterator[int]:
    """Write samples block by block; gives how many each one had."""
    for first in range(part[0], part[1], _BLOCK):
        if stop.is_set():
            return
        last = min(first + _BLOCK, part[1])
        writer.write(source, first, last)
        yield last - first


def _counted(done: queue.SimpleQueue[int | None], left: int, futures: list[Future[None]]) -> Iterator[int]:
    """The blocks as they are written, until all files have ended; raises what went wrong with one."""
    while left:
        count = done.get()
        if count is not None:
            yield count
            continue
        left -= 1
        for future in futures:
            if future.done():
                future.result()
    for future in futures:
        future.result()
