"""Records from every worker to every worker: some at a time, as columns in plain bytes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from fleet.data.columns.records import Column, Index, Records, join
from fleet.errors import CommunicationError, UsageError
from fleet_programs.datasets.multislot import none_of

if TYPE_CHECKING:
    from fleet.collective.world.util import Util

Bytes = npt.NDArray[np.uint8]


class ShuffleFleet(Protocol):
    """The part of a Fleet that a shuffle needs; the module `fleet` has it too."""

    @property
    def util(self) -> Util: ...
    def worker_index(self) -> int: ...
    def worker_num(self) -> int: ...


def exchange(
    records: Records, to: Index, job: ShuffleFleet, *, round_size: int, pause_s: float, num_threads: int
) -> Records:
    """What this worker gets when each sends its records where `to` says; every worker calls it.

    A round sends at most `round_size` records to each worker, so memory needs room for that much more; `pause_s` is
    waited between rounds. What comes is in the order of rounds, then of workers, then of their records.
    """
    from fleet_programs.datasets.sending import exchange_bytes

    util, num_workers = job.util, job.worker_num()
    _compare(records, job)
    rows = [np.flatnonzero(to == worker) for worker in range(num_workers)]
    num_rounds = int(util.all_reduce(math.ceil(max(map(len, rows)) / round_size), "max"))
    got = [none_of(records.slots, records.ids is not None)]
    with ThreadPoolExecutor(min(num_threads, len(records.slots)), "fleet-shuffle") as threads:
        for number in range(num_rounds):
            first, last = number * round_size, (number + 1) * round_size
            parts = [_pack(records.take(index[first:last], threads=threads)) for index in rows]
            got += [_unpack(raw, records) for raw in exchange_bytes(util, parts)]
            if pause_s > 0 and number + 1 < num_rounds:
                time.sleep(pause_s)
    result = join(got)
    before, after = util.all_reduce([records.num, result.num])
    if before != after:
        raise CommunicationError(f"{before} records were sent between {num_workers} workers and {after} have come")
    return result


def _compare(records: Records, job: ShuffleFleet) -> None:
    """Every worker must mean the same by the bytes; it is told who does not."""
    own: list[list[Any]] = [[slot.name, slot.dtype, slot.shape and list(slot.shape)] for slot in records.slots]
    own.append(["ids", records.ids is not None, None])
    for worker, other in enumerate(told := job.util.all_gather(own)):
        if other != told[0]:
            name = next((mine[0] for mine, its in zip(told[0], other, strict=False) if mine != its), "another number")
            raise UsageError(f"workers 0 and {worker} have different slots ({name}); give all the same use_var")


def _pack(records: Records) -> list[Bytes]:
    """How many records and values there are, then every array; each begins at a multiple of eight bytes."""
    plain = [column.plain() for column in records.columns]
    header = [records.num, *(len(values) for values, offsets in plain if offsets is not None)]
    arrays: list[npt.NDArray[Any] | None] = [np.array(header, dtype=np.int64), records.ids]
    for values, offsets in plain:
        arrays += [offsets, values]
    return list(_aligned(array for array in arrays if array is not None))


def _aligned(arrays: Iterable[npt.NDArray[Any]]) -> Iterable[Bytes]:
    for array in arrays:
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        yield raw
        if len(raw) % 8:
            yield np.zeros(-len(raw) % 8, dtype=np.uint8)


def _unpack(raw: Bytes, like: Records) -> Records:
    """What `_pack` packed, as views."""
    place = 0

    def read(shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        nonlocal place
        size = math.prod(shape) * np.dtype(dtype).itemsize
        values: npt.NDArray[Any] = raw[place : place + size].view(dtype).reshape(shape)
        place += size + -size % 8
        return values

    ragged = sum(slot.shape is None for slot in like.slots)
    num, *lengths = read((1 + ragged,), np.int64).tolist()
    ids = None if like.ids is None else read((num,), np.int64)
    columns = []
    for slot in like.slots:
        if slot.shape is None:
            offsets = read((num + 1,), np.int64)
            columns.append(Column(read((lengths.pop(0),), slot.dtype), offsets))
        else:
            columns.append(Column(read((num, math.prod(slot.shape)), slot.dtype), None))
    return Records(like.slots, columns, num, ids)
