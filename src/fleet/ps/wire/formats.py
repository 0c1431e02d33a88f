"""How floats travel: arrays to the bytes of a format and back. csrc/compress/format.h has the bytes.

A format is its number in proto/ps.proto; 0, float32, is the array itself. Rows are encoded one by one, so that those of
an encoded array can be taken out or put into another order; a vector in blocks of 64 values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fleet import _native
from fleet.errors import UsageError
from fleet.ps.job.dense_spec import DenseSpec
from fleet.ps.job.spec import JobSpec
from fleet.ps.wire import callers
from fleet.strategy.parameter_server import FORMATS

if TYPE_CHECKING:
    from fleet.ps.proto import ps_pb2
    from fleet.ps.wire.messages import Tensor, Tensors

Floats = NDArray[np.float32]

FLOAT32 = 0


def number_of(name: str | None) -> int:
    """The number of a format; float32 where nothing is said."""
    return FLOAT32 if name is None else FORMATS.index(name)


def check_format(number: int, where: str) -> int:
    """The number of a format that this version knows; UsageError for any other."""
    if not 0 <= number < len(FORMATS):
        raise UsageError(f"{where}: there is no format {number}; there are 0 to {len(FORMATS) - 1}")
    return number


def row_bytes(number: int, width: int) -> int:
    """The bytes of one encoded row."""
    return (4 * width, 2 * width, 2 * width, 2 + width)[number]


def encoded_rows(rows: Floats, number: int) -> NDArray[Any]:
    """Rows [n, width] as they travel, rounded to the nearest value."""
    return rows if number == FLOAT32 else _native.encode_rows(rows, number)


def decoded_rows(tensor: Tensor, number: int, shape: tuple[int, int], where: str) -> Floats:
    """Rows that have travelled; UsageError if the bytes are not those of so many."""
    raw = raw_bytes(tensor)
    if raw.nbytes != shape[0] * row_bytes(check_format(number, where), shape[1]):
        raise UsageError(_misfit(where, raw, f"{shape[0]} x {shape[1]}", number))
    callers.reserve(4 * shape[0] * shape[1])
    return _native.decode_rows(raw, number, *shape)


def decoded_vector(tensor: Tensor, number: int, size: int, where: str) -> Floats:
    """A vector that has travelled; UsageError if the bytes are not those of so many values."""
    raw = raw_bytes(tensor)
    check_format(number, where)
    try:
        return _native.decode_vector(raw, number, size)
    except ValueError:
        raise UsageError(_misfit(where, raw, str(size), number)) from None


def decoded_dense(forms: Sequence[ps_pb2.PushRequest.Dense], tensors: Tensors, sizes: Sequence[int]) -> list[Floats]:
    """What a server will read from dense groups that were encoded here; `forms` and `sizes` have one for each."""
    rest, found = iter(tensors), []
    for form, size in zip(forms, sizes, strict=True):
        places = raw_bytes(next(rest)).view(np.int32) if form.is_sparse else None
        values = decoded_vector(next(rest), form.format, size if places is None else len(places), "a push")
        found.append(values if places is None else _native.spread(places, values, size))
    return found


def exact_groups(dense: DenseSpec) -> list[bool]:
    """For each dense group, whether its values travel as float32, whatever is asked for.

    Running statistics go back and forth, and would stand still once their steps are smaller than those of a format.
    """
    return [group.name == "average" for group in dense.groups]


def answer_formats(dense: DenseSpec, number: int) -> list[int]:
    """For each dense group, how its values travel to workers where `number` is asked for."""
    return [FLOAT32 if is_exact else number for is_exact in exact_groups(dense)]


def encoded_answer(values: Sequence[Floats], dense: DenseSpec, number: int) -> list[NDArray[Any]]:
    """The values of every dense group as they travel to workers."""
    formats = answer_formats(dense, number)
    return [
        array if one == FLOAT32 else _native.encode_vector(array, None, one)
        for array, one in zip(values, formats, strict=True)
    ]


def decoded_answer(
    tensors: Tensors, widths: Sequence[int], formats: Sequence[int], job: JobSpec, server: int, dense: int | None
) -> list[Tensor]:
    """What a server of a job has answered, all in float32: rows of some widths, then dense values, then the rest.

    `dense`: the format that the values were asked for in; None: there are none.
    """
    found: list[Tensor] = []
    for tensor, width, number in zip(tensors, widths, formats, strict=False):
        raw = raw_bytes(tensor) if number else None
        if raw is not None:
            num_rows = raw.nbytes // row_bytes(number, width)
            tensor = decoded_rows(raw, number, (num_rows, width), "rows")
        found.append(tensor)
    rest = list(tensors[len(found) :])
    if dense:
        for group, number in enumerate(answer_formats(job.dense, dense)[: len(rest)]):
            if number:
                rest[group] = decoded_vector(rest[group], number, job.dense.size(server, group), "dense values")
    return found + rest


def raw_bytes(tensor: Tensor) -> NDArray[np.uint8]:
    """The bytes of a tensor, where they lie; a copy only if those of int32 would not be aligned."""
    raw = tensor if isinstance(tensor, np.ndarray) else np.frombuffer(tensor, np.uint8)
    flat: NDArray[np.uint8] = raw.reshape(-1).view(np.uint8)
    return flat.copy() if flat.ctypes.data % 4 else flat


def _misfit(where: str, raw: NDArray[np.uint8], wanted: str, number: int) -> str:
    return f"{where}: {raw.nbytes} bytes do not hold {wanted} values of {FORMATS[number]}"
