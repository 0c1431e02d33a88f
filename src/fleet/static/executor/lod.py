"""`LoDTensor`: rows of different lengths, one after the other, and where each begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from fleet.errors import NotSupportedError, UsageError
from fleet.static.dtypes import torch_dtype

if TYPE_CHECKING:
    from fleet.static.variable import Variable


class LoDTensor:
    """Ragged values: row i is `values[offsets[i]:offsets[i + 1]]`."""

    def __init__(self, values: Any, offsets: Any) -> None:
        self.values = values if isinstance(values, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(values))
        self.offsets = torch.as_tensor(offsets, dtype=torch.int64)
        ends = self.offsets
        if ends.ndim != 1 or len(ends) == 0 or ends[0] != 0 or bool((ends[1:] < ends[:-1]).any()):
            raise UsageError(f"offsets must begin with 0 and never fall, got {ends.tolist()[:8]}")
        if int(ends[-1]) != len(self.values):
            raise UsageError(f"offsets end at {int(ends[-1])}, but there are {len(self.values)} values")

    @staticmethod
    def of(value: Any, var: Variable) -> LoDTensor:
        """What users feed to a ragged variable: a LoDTensor, (values, offsets), or a list of rows."""
        if isinstance(value, LoDTensor):
            return value
        if isinstance(value, tuple) and len(value) == 2:
            return LoDTensor(*value)
        if isinstance(value, list):
            try:
                rows = [as_numbers(row, var).reshape(-1, *var.shape[1:]) for row in value]
            except ValueError as error:
                raise UsageError(
                    f"feed {var.name!r} must be rows of {var.dtype} values of shape {list(var.shape[1:])}: {error}"
                ) from None
            whole = np.concatenate(rows) if rows else np.zeros((0, *var.shape[1:]))
            values = torch.from_numpy(whole).to(torch_dtype(var.dtype))
            return LoDTensor(values, np.cumsum([0, *map(len, rows)]))
        raise UsageError(
            f"feed {var.name!r} is ragged: give a LoDTensor, a pair (values, offsets) or a list of rows, "
            f"got {type(value).__name__}"
        )

    def recursive_sequence_lengths(self) -> list[list[int]]:
        return [torch.diff(self.offsets).tolist()]

    def lod(self) -> list[list[int]]:
        return [self.offsets.tolist()]

    def shape(self) -> list[int]:
        return list(self.values.shape)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.values.cpu().numpy(), dtype=dtype, copy=True if copy is None else copy)

    def __len__(self) -> int:
        return len(self.offsets) - 1


def create_lod_tensor(data: Any, recursive_seq_lens: Sequence[Sequence[int]], place: object = None) -> LoDTensor:
    """A LoDTensor of values and the lengths of its rows."""
    from fleet.static.executor.place import device_of

    if len(recursive_seq_lens) != 1:
        raise NotSupportedError(f"recursive_seq_lens must have one level, got {len(recursive_seq_lens)}")
    values = data.values if isinstance(data, LoDTensor) else data
    if isinstance(values, list):
        values = np.concatenate([np.asarray(row).reshape(-1, 1) for row in values])
    made = LoDTensor(values, np.cumsum([0, *recursive_seq_lens[0]]))
    if place is not None:
        made.values = made.values.to(device_of(place))
    return made


def as_numbers(value: Any, var: Variable) -> NDArray[Any]:
    """Numbers of Python as what a variable is; ValueError if they would lose their fraction."""
    found = np.asarray(value)
    dtype = np.dtype(np.float32 if var.dtype == "bfloat16" else var.dtype)
    if found.size and found.dtype.kind == "f" and dtype.kind != "f":
        raise ValueError(f"{found.dtype} is no {dtype}")
    return found.astype(dtype)
