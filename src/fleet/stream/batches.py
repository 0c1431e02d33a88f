"""One batch of changes as bytes: a safetensors file in memory, whose metadata says which batch it is.

    keys/TABLE            int64 [n]            ascending: the rows that have changed
    values/TABLE          float32 [n, width]   what they are after the change
    gone/TABLE            int64 [m]            ascending: rows that are no more
    dense/OFFSET/NAME     float32 [k]          elements from OFFSET on of a flattened parameter
    metadata              the sum of all bytes, then format, stream, shard, number, whole, mark, step, oldest, newest

A shard is what one server of the job holds. Its batches are numbered without a gap. Values make a batch
idempotent; one that comes again is refused all the same, for then others may be missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet.checkpoint.files.pieces import check_own_sum, decode, encoded, metadata_of
from fleet.errors import CheckpointError, StreamError

FORMAT = "fleet changes 1"
_REMEDY = "take the newest base, and follow from there"


class StartOverError(StreamError):
    """Batches alone do not lead on from where a follower is; a base does."""


class MissingBatchError(StartOverError):
    """A batch is missing before one that is there."""

    def __init__(self, shard: int, wanted: int, found: int) -> None:
        super().__init__(f"shard {shard}: batch {found} is there and batch {wanted} is not; {_REMEDY}")
        self.shard, self.wanted, self.found = shard, wanted, found


class RepeatedBatchError(StartOverError):
    """A batch that was taken comes again, in the place of another."""

    def __init__(self, shard: int, wanted: int, found: int) -> None:
        super().__init__(f"shard {shard}: batch {found} comes again, where batch {wanted} should be; {_REMEDY}")
        self.shard, self.wanted, self.found = shard, wanted, found


class DamagedBatchError(StartOverError):
    """The bytes of a batch are not those that were written."""


@dataclass(frozen=True)
class TableChanges:
    """What has changed in one table; keys are ascending, and none is in both."""

    keys: NDArray[np.int64]
    values: NDArray[np.float32]
    gone: NDArray[np.int64]


@dataclass(frozen=True)
class ChangeBatch:
    """What has changed in one shard since the batch before."""

    stream: str
    shard: int
    number: int
    tables: Mapping[str, TableChanges] = field(default_factory=dict)
    dense: Mapping[tuple[str, int], NDArray[np.float32]] = field(default_factory=dict)
    """By parameter, and the first of its flattened elements that is here."""
    oldest: float = 0.0
    """When the first of the changes was made, in seconds since 1970."""
    newest: float = 0.0
    """When everything up to then was in this batch, or in one before."""
    step: int = 0
    """How many steps (sync) or pushes (otherwise) the server had applied."""
    whole: int = 0
    """The last batch, this one or one before, with which everything of a moment is there: large ones are cut up."""
    mark: str = ""
    """The server's own name for that moment."""
    after: str = ""
    """The mark of the batch before; who has taken that with another mark has taken one that was replaced."""

    @property
    def is_empty(self) -> bool:
        """Whether it only says that nothing has changed."""
        return not self.tables and not self.dense


_NUMBERS = ("shard", "number", "step", "whole")
_SECONDS = ("oldest", "newest")


def pack(batch: ChangeBatch) -> bytes:
    """The bytes of a batch."""
    tensors: dict[str, NDArray[Any]] = {}
    for name, changes in batch.tables.items():
        tensors[f"keys/{name}"], tensors[f"values/{name}"] = changes.keys, changes.values
        tensors[f"gone/{name}"] = changes.gone
    for (name, offset), values in batch.dense.items():
        tensors[f"dense/{offset}/{name}"] = values
    metadata = {"format": FORMAT, "stream": batch.stream, "mark": batch.mark, "after": batch.after}
    metadata |= {name: str(getattr(batch, name)) for name in _NUMBERS}
    metadata |= {name: repr(float(getattr(batch, name))) for name in _SECONDS}
    parts, _ = encoded(tensors, metadata, with_sum=True)
    return b"".join(part if isinstance(part, bytes) else part.data.cast("B") for part in parts if len(part))


def unpack(blob: bytes | NDArray[np.uint8], where: str = "a batch") -> ChangeBatch:
    """The batch that some bytes are, as views of them; DamagedBatchError if they are not those that were packed.

    StreamError if they are no batch of a format that is known here.
    """
    data = np.frombuffer(blob, np.uint8) if isinstance(blob, bytes) else blob
    try:
        check_own_sum(data, where, is_needed=True)
        tensors = decode(data, where)
    except CheckpointError as error:
        raise DamagedBatchError(f"{error}; take the newest base, and follow from there") from None
    metadata = metadata_of(data, where)
    if metadata.get("format") != FORMAT:
        raise StreamError(
            f"{where} has the format {metadata.get('format')!r:.60}, known here is {FORMAT!r}; update what follows"
        )
    try:
        shard, number, step, whole = (int(metadata[name]) for name in _NUMBERS)
        oldest, newest = (float(metadata[name]) for name in _SECONDS)
        if min(shard, number, step, whole) < 0 or not math.isfinite(oldest + newest):
            raise ValueError("a number is out of range")
        tables, dense = _contents(tensors)
        about = oldest, newest, step, whole, metadata["mark"], metadata.get("after", "")
        return ChangeBatch(metadata["stream"], shard, number, tables, dense, *about)
    except (KeyError, ValueError) as error:
        raise DamagedBatchError(f"{where} is damaged: it is no batch of changes ({error}); {_REMEDY}") from None


def _contents(
    tensors: Mapping[str, NDArray[Any]],
) -> tuple[dict[str, TableChanges], dict[tuple[str, int], NDArray[np.float32]]]:
    tables: dict[str, TableChanges] = {}
    dense: dict[tuple[str, int], NDArray[np.float32]] = {}
    for name, array in tensors.items():
        kind, _, rest = name.partition("/")
        if kind == "dense":
            offset, _, parameter = rest.partition("/")
            dense[parameter, int(offset)] = _checked(array, np.float32, 1)
        elif kind == "keys":
            keys, gone = (_ascending(_checked(tensors[f"{part}/{rest}"], np.int64, 1)) for part in ("keys", "gone"))
            values = _checked(tensors[f"values/{rest}"], np.float32, 2)
            if len(values) != len(keys):
                raise ValueError(f"{len(keys)} keys have {len(values)} values")
            tables[rest] = TableChanges(keys, values, gone)
        elif kind not in ("values", "gone") or f"keys/{rest}" not in tensors:
            raise ValueError(f"{name!r:.60} does not belong into it")
    return tables, dense


def _checked(array: NDArray[Any], dtype: type, num_axes: int) -> NDArray[Any]:
    if array.dtype != dtype or array.ndim != num_axes:
        raise ValueError(f"{array.dtype}{list(array.shape)} is no tensor of a batch")
    return array


def _ascending(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    if len(keys) > 1 and not (keys[1:] > keys[:-1]).all():
        raise ValueError("keys are not ascending")
    return keys
