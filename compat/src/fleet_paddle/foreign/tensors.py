"""Variables as PaddlePaddle writes them: one after the other in a file, without names.

uint32          0, the version
uint64          how many levels of rows, then for each: uint64 its bytes, and offsets of uint64
uint32          0, the version of the tensor
int32           the bytes of the next part
message         type and shape (`messages.TensorDesc`)
bytes           the values
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.errors import CheckpointError
from fleet_paddle.foreign.messages import DTYPES, message

_MAX_LEVELS = 16
_MAX_DIMS = 32


class Stream:
    """The bytes of a file, taken one part after the other; CheckpointError where there are too few."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._data = memoryview(path.read_bytes())
        except OSError as error:
            raise CheckpointError(f"cannot read {path}: {error.strerror or error}; check the path") from None
        self._at = 0

    def take(self, count: int, what: str) -> memoryview:
        """The next bytes."""
        left = len(self._data) - self._at
        if not 0 <= count <= left:
            raise self.damaged(f"{what} should have {count} bytes, and {left} are left")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, form: str, what: str) -> int:
        """The next number; `form` is one of struct's."""
        return int(struct.unpack(form, self.take(struct.calcsize(form), what))[0])

    def is_over(self) -> bool:
        """Whether everything was taken."""
        return self._at == len(self._data)

    def damaged(self, why: str) -> CheckpointError:
        """The error for this file."""
        return CheckpointError(f"{self.path} is damaged, or no file of variables: {why}; copy it again")


def read_one(path: Path) -> npt.NDArray[Any]:
    """The variable of a file that has one."""
    stream = Stream(path)
    found = read_tensor(stream)
    if not stream.is_over():
        raise stream.damaged("more follows after its variable")
    return found


def read_all(path: Path, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """The variables of a file that has several, in the order of their names, as they were written."""
    stream = Stream(path)
    found = {name: read_tensor(stream) for name in sorted(names)}
    if not stream.is_over():
        raise stream.damaged(f"more follows after {len(found)} variables, so it is of another program")
    return found


def read_tensor(stream: Stream) -> npt.NDArray[Any]:
    """The next variable; where rows of ragged values begin is left out, for no parameter has that."""
    _require_version(stream, "a variable")
    levels = stream.number("<Q", "the number of levels")
    if levels > _MAX_LEVELS:
        raise stream.damaged(f"a variable has {levels} levels of rows")
    for _ in range(levels):
        stream.take(stream.number("<Q", "the size of a level"), "a level")
    _require_version(stream, "a tensor")
    described = message("TensorDesc")
    try:
        described.ParseFromString(bytes(stream.take(stream.number("<i", "a description"), "a description")))
    except CheckpointError:
        raise
    except Exception:  # protobuf's DecodeError has several homes
        raise stream.damaged("a description is no message") from None
    kind = DTYPES.get(described.data_type)
    if kind is None:
        raise stream.damaged(f"type {described.data_type} is none of numbers")
    if len(described.dims) > _MAX_DIMS:  # before they are multiplied, which takes long for a million
        raise stream.damaged(f"a tensor has {len(described.dims)} dimensions")
    shape = list(described.dims)
    if any(size < 0 for size in shape):
        raise stream.damaged(f"a tensor of shape {shape}")
    size = (2 if kind == "bfloat16" else np.dtype(kind).itemsize) * prod(shape)
    raw = stream.take(size, f"a tensor of shape {shape}")
    if kind == "bfloat16":  # numpy has none: its bits are the upper half of a float32
        values = (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
    else:
        values = np.frombuffer(raw, np.dtype(kind).newbyteorder("<")).astype(kind)
    try:
        return values.reshape(shape)
    except ValueError:  # nothing, and beside it sizes that no array has
        raise stream.damaged(f"a tensor of shape {shape}") from None


def _require_version(stream: Stream, what: str) -> None:
    version = stream.number("<I", f"the version of {what}")
    if version != 0:
        raise stream.damaged(f"{what} has version {version}, and 0 is known")
