"""The id of a category's value: 63 bits of the slot's name and the value's text, the same on every machine.

csrc/data/hash_text.h has the definition, which never changes: tables are trained on these ids and saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fleet import _native
from fleet.errors import UsageTypeError

Ids = npt.NDArray[np.int64]


def hash_ids(slot: str, values: Sequence[str | bytes | int | None] | npt.NDArray[Any] | torch.Tensor) -> Ids:
    """The ids that readers of files make of these values: text, or integers as their decimal text; None is a gap.

    >>> fleet.data.hash_ids("user", ["17", 17, "anna"])
    """
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return hash_numbers(slot, values.reshape(-1)).reshape(values.shape)
    if isinstance(values, np.ndarray) and values.dtype.kind == "S":
        return hash_texts(slot, *_of_bytes(values.reshape(-1))).reshape(values.shape)
    if isinstance(values, np.ndarray) and values.dtype.kind in "UTO":
        return hash_ids(slot, values.reshape(-1).tolist()).reshape(values.shape)
    if isinstance(values, (str, bytes, np.ndarray)) or not isinstance(values, Sequence):
        found = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else repr(values)
        raise UsageTypeError(f"hash_ids takes a list of texts or integers, got {found}")
    texts = [_text(value) for value in values]
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return hash_texts(slot, np.frombuffer(b"".join(texts), dtype=np.uint8), offsets)


def hash_texts(slot: str, text: npt.NDArray[np.uint8], offsets: npt.NDArray[Any]) -> Ids:
    """Ids of the texts between two offsets (int32 or int64), as Arrow stores them."""
    return _native.hash_text(_native.slot_seed(slot), text, offsets)


def hash_numbers(slot: str, numbers: npt.NDArray[Any]) -> Ids:
    """Ids of integers: those of their decimal text."""
    wide: Any = np.uint64 if numbers.dtype == np.uint64 else np.int64
    return _native.hash_numbers(_native.slot_seed(slot), np.ascontiguousarray(numbers, dtype=wide))


def _text(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if value is None:
        return b""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return str(value).encode()
    raise UsageTypeError(f"hash_ids takes texts and integers, got {value!r}; write it as the text that files have")


def _of_bytes(values: npt.NDArray[np.bytes_]) -> tuple[npt.NDArray[np.uint8], Ids]:
    width, lengths = values.dtype.itemsize, np.strings.str_len(values)
    offsets = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    filled = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), width)
    return filled[np.arange(width) < lengths[:, None]], offsets
