"""Writes the files of an inference copy: one part of each table per server, and the dense parameters."""

import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import FileIO
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.checkpoint.files.files import Bytes, FileInfo, why_not_written, write_all, write_file
from fleet.checkpoint.files.names import file_name_of
from fleet.checkpoint.folders.inference import DenseArray, TablePart, Unseen
from fleet.checkpoint.state.tables import PIECE_BYTES, ReadableTable, shard_groups
from fleet.errors import CheckpointError

_BATCH_BYTES = 16 << 20


def export_table(
    table: ReadableTable,
    name: str,
    folder: Path,
    server: int,
    num_servers: int,
    *,
    dtype: str,
    unseen: Unseen | None = None,
    piece_bytes: int = PIECE_BYTES,
    moved: Callable[[], None] = lambda: None,
) -> TablePart:
    """Write the rows of one server's part of a table as keys in ascending order and float32 values.

    Values pass through a nameless file in `folder`, for the order is known only when all keys are: memory holds one
    piece's rows and all keys, and the disk needs room for the values twice. `moved` is called after each piece, and at
    the end.
    """
    stem = f"{file_name_of(name)}.part-{server:03}-of-{num_servers:03}"
    all_keys = []
    with _spill_file(folder, stem) as spill:
        for first, last in shard_groups(table, piece_bytes):
            rows = table.export(first, last)
            all_keys.append(rows["keys"])
            values = widen(rows["values"], dtype)
            del rows
            try:
                write_all(spill, values.reshape(-1).view(np.uint8).data)
            except OSError as error:
                raise CheckpointError(why_not_written(folder / stem, error, values.nbytes)) from error
            moved()
        keys = np.concatenate(all_keys)
        order = np.argsort(keys)
        width = table.width
        values_file = _write_array(
            folder, f"{stem}.values.npy", np.float32, (len(keys), width), _in_order(spill, order, width)
        )
    keys_file = _write_array(folder, f"{stem}.keys.npy", np.int64, keys.shape, [keys[order]])
    moved()
    return TablePart(name, server, len(keys), width, keys_file, values_file, unseen or Unseen())


def export_dense(folder: Path, tensors: Mapping[str, npt.NDArray[Any]]) -> list[DenseArray]:
    """Write dense parameters and buffers, each in its own type and shape."""
    written = []
    for name, given in tensors.items():
        array = np.ascontiguousarray(given).reshape(np.shape(given))  # the former makes a list of a scalar
        try:
            (folder / "dense").mkdir(exist_ok=True)
        except OSError as error:
            raise CheckpointError(why_not_written(folder / "dense", error, array.nbytes)) from error
        info = _write_array(folder, f"dense/{file_name_of(name)}.npy", array.dtype, array.shape, [array])
        written.append(DenseArray(name, array.shape, info, array.dtype.name))
    return written


def widen(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[np.float32]:
    """Stored values as float32: 16 bits are those of `dtype`."""
    if dtype == "float16":
        return values.view(np.float16).astype(np.float32)
    if dtype == "bfloat16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(values, np.float32)


def _spill_file(folder: Path, stem: str) -> FileIO:
    try:
        return tempfile.TemporaryFile(dir=folder, buffering=0)
    except OSError as error:
        raise CheckpointError(why_not_written(folder / stem, error, 0)) from error


def _in_order(spill: FileIO, order: npt.NDArray[np.int64], width: int) -> Iterator[Bytes]:
    if not len(order):
        return
    rows = np.memmap(spill, np.float32, "r", shape=(len(order), width))
    step = max(1, _BATCH_BYTES // (4 * width))
    for begin in range(0, len(order), step):
        yield rows[order[begin : begin + step]]


def _write_array(
    folder: Path, name: str, dtype: npt.DTypeLike, shape: tuple[int, ...], parts: Iterable[Bytes]
) -> FileInfo:
    kind = np.dtype(dtype)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": kind.str, "fortran_order": False, "shape": shape})
    size_bytes = header.tell() + int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    return write_file(folder / name, chain([header.getvalue()], parts), size_bytes, name=name)
