"""`DataFeeder`: samples, as Python has them, become the arrays that a program is fed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet_programs.executor.lod import LoDTensor
from fleet_programs.executor.place import device_of
from fleet_programs.program.program import Program, default_main_program
from fleet_programs.program.variable import Variable

Feed = dict[str, Any]


class DataFeeder:
    """Turns a batch of samples into a feed. A sample is a tuple with a value for each variable of `feed_list`.

    A value is a number, a list or an array of as many elements as one row of the variable; for a ragged variable it is
    a list of rows, of any length.
    """

    def __init__(
        self, feed_list: Sequence[Variable | str], place: object = None, program: Program | None = None
    ) -> None:
        if place is not None:
            device_of(place)
        if isinstance(feed_list, Variable | str) or not feed_list:
            raise UsageTypeError(f"feed_list must be a list of variables or their names, got {feed_list!r}")
        for one in feed_list:
            if not isinstance(one, Variable | str):
                raise UsageTypeError(f"feed_list must hold variables or their names, got {type(one).__name__}")
        block = (default_main_program() if program is None else program).global_block()
        self.feed_vars = [one if isinstance(one, Variable) else block.var(one) for one in feed_list]

    def feed(self, iterable: Iterable[Sequence[Any]]) -> Feed:
        """The feed of one batch: an array for each variable, a LoDTensor for a ragged one."""
        samples = list(iterable)
        if not samples:
            raise UsageError("a batch must have at least one sample; skip empty ones")
        wanted = len(self.feed_vars)
        try:
            columns = list(zip(*samples, strict=True))
        except (TypeError, ValueError):
            columns = []
        if len(columns) != wanted:
            raise self._uneven(samples)
        return {var.name: _column(var, column) for var, column in zip(self.feed_vars, columns, strict=True)}

    def feed_parallel(self, iterable: Iterable[Any], num_places: int | None = None) -> Iterator[Feed]:
        """A feed for each batch. Several devices in one process are not built."""
        _one_place("feed_parallel", num_places)
        for batch in iterable:
            yield self.feed(batch)

    def decorate_reader(
        self,
        reader: Callable[[], Iterable[Any]],
        multi_devices: bool = False,
        num_places: int | None = None,
        drop_last: bool = True,
    ) -> Callable[[], Iterator[Feed]]:
        """A reader of feeds from a reader of batches. `drop_last` concerns several devices; a process has one."""
        del drop_last
        _one_place("decorate_reader", num_places if num_places is not None or not multi_devices else 2)

        def feeds() -> Iterator[Feed]:
            for batch in reader():
                yield self.feed(batch)

        return feeds

    def _uneven(self, samples: Sequence[Any]) -> UsageError:
        names = ", ".join(var.name for var in self.feed_vars)
        for index, sample in enumerate(samples):
            if not isinstance(sample, Sequence | np.ndarray) or isinstance(sample, str):
                kind = type(sample).__name__
                return UsageError(f"sample {index} must be a tuple of values for {names}, got {kind}: write (value,)")
            if len(sample) != len(self.feed_vars):
                return UsageError(
                    f"sample {index} has {len(sample)} values, but there are {len(self.feed_vars)}: {names}"
                )
        return UsageError(f"samples must be tuples of values for {names}")


def _one_place(what: str, num_places: int | None) -> None:
    if num_places not in (None, 1):
        raise NotSupportedError(
            f"{what}: several places in one process are not built; start a process for each with fleetrun --worker_num"
        )


def _column(var: Variable, column: Sequence[Any]) -> Any:
    """One variable's values of all samples."""
    if var.lod is not None:
        return _ragged(var, column)
    array, row = _array(var, column), var.shape[1:]
    if array.ndim != len(var.shape):
        with suppress(ValueError):  # the check below names what does not fit
            array = array.reshape(len(column), *row)
    given = array.shape[1:]
    if len(given) != len(row) or any(wanted not in (-1, size) for wanted, size in zip(row, given, strict=True)):
        raise UsageError(f"{var.name!r} takes samples of shape {list(row)}, got shape {list(given)}; reshape them")
    return _typed(var, array)


def _ragged(var: Variable, column: Sequence[Any]) -> LoDTensor:
    """Rows of different lengths, one after the other."""
    row = var.shape[1:]
    try:
        if all(isinstance(one, np.ndarray) for one in column):
            sizes = [one.size for one in column]
            row = _known(row, column[0].shape[1:])
            whole = np.concatenate([one.reshape(-1) for one in column])
        else:
            lengths = [len(one) for one in column]
            whole = _array(var, list(chain.from_iterable(column)))
            sizes = [length * prod(whole.shape[1:]) for length in lengths]
            row = _known(row, whole.shape[1:])
    except TypeError:
        raise UsageError(f"{var.name!r} is ragged: a sample has a list of values for it, got a number") from None
    width = prod(row)
    if width < 1 or any(size % width for size in sizes):
        raise UsageError(f"{var.name!r} is ragged: a sample has a list of rows of shape {list(row)} for it, got others")
    return LoDTensor(_typed(var, whole.reshape(-1, *row)), np.cumsum([0, *(size // width for size in sizes)]))


def _known(row: tuple[int, ...], given: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a row; sizes that the variable leaves open are those of the samples."""
    return given if -1 in row and len(given) == len(row) else row


def _array(var: Variable, values: Sequence[Any]) -> npt.NDArray[Any]:
    try:
        return np.asarray(values) if len(values) else np.zeros((0,), _numpy(var.dtype))
    except ValueError:
        raise UsageError(
            f"{var.name!r}: samples of one batch differ in shape; make them alike, or declare it with lod_level=1"
        ) from None


def _typed(var: Variable, array: npt.NDArray[Any]) -> Any:
    target = _numpy(var.dtype)
    if array.dtype.kind in "US":
        array = _read(var, array, target)
    if array.dtype != target:
        if target != np.bool_ and not np.can_cast(array.dtype, target, "same_kind"):
            raise UsageError(f"{var.name!r} is {var.dtype}, got {array.dtype} samples; convert them")
        array = array.astype(target)
    return torch.from_numpy(array).bfloat16() if var.dtype == "bfloat16" else np.ascontiguousarray(array)


def _read(var: Variable, array: npt.NDArray[Any], target: np.dtype[Any]) -> npt.NDArray[Any]:
    """Numbers that a reader has left as the texts of its file."""
    try:
        return array.astype(target)
    except ValueError as error:
        raise UsageError(f"{var.name!r} is {var.dtype}, got texts that are no such numbers: {error}") from None


def _numpy(dtype: str) -> np.dtype[Any]:
    return np.dtype("float32" if dtype == "bfloat16" else dtype)
