"""`LoDTensor`: rows of different lengths, one after the other, and where each begins; rows may be in groups."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from fleet.errors import NotReadyError, NotSupportedError, UsageError
from fleet_programs.definition.dtypes import torch_dtype

if TYPE_CHECKING:
    from fleet_programs.program.variable import Variable


class LoDTensor:
    """Ragged values: row i is `values[offsets[i]:offsets[i + 1]]`; with `groups`, group j is the rows from `groups[j]`.

    Made without arguments it is empty until `set`; without offsets, until `set_lod`, it is an ordinary tensor.
    """

    def __init__(self, values: Any = None, offsets: Any = None, groups: Any = None) -> None:
        self._values: torch.Tensor | None = None
        self._offsets: torch.Tensor | None = None
        self.groups: torch.Tensor | None = None
        """Where groups of rows begin, and the last one ends; None where rows are in none."""
        if values is not None:
            self.set(values)
        if offsets is not None:
            self._offsets = _checked(offsets, len(self.values))
        if groups is not None:
            self.groups = _checked(groups, len(self.offsets) - 1, "rows")

    @property
    def values(self) -> torch.Tensor:
        """All rows, one after the other; NotReadyError before `set`."""
        if self._values is None:
            raise NotReadyError("this LoDTensor has no values yet; set() them first")
        return self._values

    @values.setter
    def values(self, values: torch.Tensor) -> None:
        self._values = values

    @property
    def offsets(self) -> torch.Tensor:
        """Where each row begins, and the last one ends; NotReadyError if nobody has said."""
        if self._offsets is None:
            raise NotReadyError("this LoDTensor has no rows yet; set_recursive_sequence_lengths([[3, 2, ...]]) first")
        return self._offsets

    @staticmethod
    def of(value: Any, var: Variable) -> LoDTensor:
        """What users feed to a ragged variable: a LoDTensor, (values, offsets), or a list of rows."""
        if isinstance(value, LoDTensor):
            return value
        if isinstance(value, tuple) and len(value) == 2:
            return LoDTensor(shared(value[0]), value[1])
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

    def set(self, value: Any, place: object = None) -> None:
        """Take these values, on `place` if it is given; if their number differs, say again where rows begin.

        An array is copied, so that it may be filled anew afterwards; a tensor is kept as it is.
        """
        from fleet_programs.executor.place import device_of

        is_tensor = isinstance(value, torch.Tensor)
        tensor = value if is_tensor else torch.from_numpy(np.array(value, order="C", ndmin=1))
        self._values = tensor if place is None else tensor.to(device_of(place))
        if self._offsets is not None and int(self._offsets[-1]) != len(tensor):
            self._offsets = self.groups = None

    def set_lod(self, lod: Sequence[Sequence[int]]) -> None:
        """Where rows begin, and the last one ends: [[0, 2, 5]]; with groups before it: [[0, 1, 2], [0, 2, 5]]."""
        groups, offsets = _levels(lod, "lod") if len(lod) else (None, None)
        made = LoDTensor(self.values, offsets, groups)
        self._offsets, self.groups = made._offsets, made.groups

    def set_recursive_sequence_lengths(self, recursive_sequence_lengths: Sequence[Sequence[int]]) -> None:
        """How long the rows are: [[2, 3]]; with how many rows each group has before it: [[1, 1], [2, 3]]."""
        levels = _levels(recursive_sequence_lengths, "recursive_sequence_lengths")
        self.set_lod([np.cumsum([0, *one]).tolist() for one in levels if one is not None])

    def recursive_sequence_lengths(self) -> list[list[int]]:
        """How long the rows are: [[2, 3]]; [] for an ordinary tensor."""
        return [np.diff(level).tolist() for level in self.lod()]

    def has_valid_recursive_sequence_lengths(self) -> bool:
        """Whether the rows are as long as the values; they are once they were accepted."""
        return self._values is not None

    def lod(self) -> list[list[int]]:
        """Where rows begin, and the last one ends: [[0, 2, 5]]; [] for an ordinary tensor."""
        return [level.tolist() for level in (self.groups, self._offsets) if level is not None]

    def shape(self) -> list[int]:
        """The shape of the values; [0] before there are any."""
        return [0] if self._values is None else list(self._values.shape)

    _get_dims = shape

    def _is_initialized(self) -> bool:
        return self._values is not None

    def _get_float_element(self, index: int) -> float:
        return float(self.values.reshape(-1)[index])

    _get_double_element = _get_float_element

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return as_array(self.values, dtype, copy)

    def __len__(self) -> int:
        return len(self.offsets if self.groups is None else self.groups) - 1


class Fetched(torch.Tensor):
    """A fetched tensor that is not ragged, and says so as a LoDTensor does; what is computed with it is torch's."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def of(value: Any) -> Any:
        """A tensor that nobody else has, itself made one of these; anything else as it is."""
        if type(value) is torch.Tensor:
            value.__class__ = Fetched  # every fetch passes here, and another tensor over the same memory takes longer
        return value

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Saved as torch's own: whoever loads it needs nothing of this package."""
        return self.as_subclass(torch.Tensor).__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> Fetched:
        made: Fetched = Fetched.of(copy.deepcopy(self.as_subclass(torch.Tensor), memo))
        memo[id(self)] = made
        return made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return as_array(self, dtype, copy)

    def lod(self) -> list[list[int]]:
        """No rows: []."""
        return []

    recursive_sequence_lengths = lod

    def _is_initialized(self) -> bool:
        return True

    def _get_dims(self) -> list[int]:
        return list(self.shape)

    def _get_float_element(self, index: int) -> float:
        return float(self.reshape(-1)[index])

    _get_double_element = _get_float_element


class LoDTensorArray(list[LoDTensor]):
    """Several tensors in their order."""

    def append(self, value: Any) -> None:
        """Add one: a LoDTensor, or values that become one."""
        super().append(value if isinstance(value, LoDTensor) else LoDTensor(value))


def create_lod_tensor(data: Any, recursive_seq_lens: Sequence[Sequence[int]], place: object = None) -> LoDTensor:
    """A LoDTensor of values and the lengths of its rows; a list or an iterator has a list of values for each row."""
    values = data.values if isinstance(data, LoDTensor) else data
    if isinstance(values, list | Iterator):
        values = np.concatenate([np.asarray(row).reshape(-1, 1) for row in values])
    made = LoDTensor(values)
    made.set_recursive_sequence_lengths(recursive_seq_lens)
    if place is not None:
        made.set(made.values, place)
    return made


def create_random_int_lodtensor(
    recursive_seq_lens: Sequence[Sequence[int]],
    base_shape: Sequence[int],
    place: object = None,
    low: int = 0,
    high: int = 1,
) -> LoDTensor:
    """A LoDTensor of random whole numbers from `low` to `high`, both included; one value has the shape `base_shape`."""
    if low > high:
        raise UsageError(f"create_random_int_lodtensor: low must be <= high, got {low} and {high}")
    _, lengths = _levels(recursive_seq_lens, "recursive_seq_lens")
    values = np.random.randint(low, high + 1, (int(sum(lengths)), *base_shape)).astype(np.int64)
    return create_lod_tensor(values, recursive_seq_lens, place)


def shared(value: Any) -> torch.Tensor:
    """Values as a tensor, over the memory of an array if that will do."""
    return value if isinstance(value, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(value))


def as_array(tensor: torch.Tensor, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
    """What `__array__` of something with a tensor gives; a copy unless none is allowed, and then ValueError if needed.

    numpy has no bfloat16: such values become float32.
    """
    held = tensor.detach()
    is_direct = held.device.type == "cpu" and held.dtype is not torch.bfloat16
    array: NDArray[Any] = (held.float() if held.dtype is torch.bfloat16 else held).cpu().numpy()
    made = array.astype(array.dtype if dtype is None else dtype, copy=copy is not False)
    if copy is False and not (is_direct and made is array):
        raise ValueError("these values cannot be such an array without a copy; leave out copy=False")
    return made


def as_numbers(value: Any, var: Variable) -> NDArray[Any]:
    """Numbers of Python as what a variable is; ValueError if they would lose their fraction."""
    found = np.asarray(value)
    dtype = np.dtype(np.float32 if var.dtype == "bfloat16" else var.dtype)
    if found.size and found.dtype.kind == "f" and dtype.kind != "f":
        raise ValueError(f"{found.dtype} is no {dtype}")
    return found.astype(dtype)


def _levels(given: Sequence[Sequence[int]], what: str) -> tuple[Sequence[int] | None, Sequence[int]]:
    """What is given about groups, if anything, and about rows."""
    if len(given) not in (1, 2):
        raise NotSupportedError(f"{what} must have one or two levels, got {len(given)}")
    return None if len(given) == 1 else given[0], given[-1]


def _checked(offsets: Any, size: int, what: str = "values") -> torch.Tensor:
    ends = torch.as_tensor(offsets, dtype=torch.int64)
    if ends.ndim != 1 or len(ends) == 0 or ends[0] != 0 or bool((ends[1:] < ends[:-1]).any()):
        raise UsageError(f"offsets must begin with 0 and never fall, got {ends.tolist()[:8]}")
    if int(ends[-1]) != size:
        raise UsageError(f"offsets end at {int(ends[-1])}, but there are {size} {what}")
    return ends
