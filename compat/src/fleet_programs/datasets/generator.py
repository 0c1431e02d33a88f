"""Generators of MultiSlot text: ordinary Python programs that a dataset runs as its pipe command.

    class Clicks(fleet_programs.MultiSlotDataGenerator):
        def generate_sample(self, line):
            def samples():
                label, *ids = map(int, line.split())
                yield ("ids", ids), ("label", [label])

            return samples

    Clicks().run_from_stdin()

This module imports neither torch nor numpy: a command is started for every file.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Integral, Real
from typing import Any, TypeAlias

from fleet.checks import count_of
from fleet.errors import NotSupportedError, UsageError

Sample: TypeAlias = Sequence[tuple[Any, Sequence[Any]]]
"""A record: (name, values) of each slot, in the order of `use_var`."""
Samples: TypeAlias = Callable[[], Iterable[Any]] | Iterable[Any]

_LEAST, _MOST = -(2**63), 2**64 - 1


class DataGenerator:
    """Lines to samples to text. Override `generate_sample`, and `generate_batch` to see several samples at once."""

    def __init__(self) -> None:
        self._batch_size = 32

    def set_batch(self, batch_size: int) -> None:
        """How many samples `generate_batch` sees at once; the last time there may be fewer."""
        self._batch_size = count_of("batch_size", batch_size)

    def generate_sample(self, line: str | None) -> Samples:  # noqa: ARG002
        """The samples of a line (None in `run_from_memory`): a function that makes an iterator of them, or an iterator.

        A sample that is None is left out.
        """
        raise NotSupportedError(f"{type(self).__name__} must override generate_sample(line)")

    def generate_batch(self, samples: list[Any]) -> Samples:
        """The samples to write in place of these, as `generate_sample` gives them."""
        return samples

    def run_from_stdin(self) -> None:
        """Write the samples of every line of standard input to standard output."""
        self._run(sample for line in sys.stdin for sample in _made(self.generate_sample(line)))

    def run_from_memory(self) -> None:
        """Write the samples of `generate_sample(None)` to standard output."""
        self._run(_made(self.generate_sample(None)))

    def _run(self, samples: Iterable[Any]) -> None:
        batch: list[Any] = []
        for sample in samples:
            if sample is None:
                continue
            batch.append(sample)
            if len(batch) == self._batch_size:
                self._write(batch)
                batch = []
        if batch:
            self._write(batch)
        sys.stdout.flush()

    def _write(self, batch: list[Any]) -> None:
        sys.stdout.writelines(map(self._gen_str, _made(self.generate_batch(batch))))

    def _gen_str(self, line: Sample) -> str:  # noqa: ARG002
        """A sample as a line of text."""
        raise NotSupportedError(f"{type(self).__name__} has no text form; use MultiSlotDataGenerator")


class MultiSlotDataGenerator(DataGenerator):
    """Samples of numbers, which are checked: the same slots in each, none empty, ints and finite floats.

    A slot that had ints alone may get a float later, which makes it a slot of floats.
    """

    def __init__(self) -> None:
        super().__init__()
        self._slots: tuple[Any, ...] | None = None

    def _gen_str(self, line: Sample) -> str:
        pairs = _pairs(line)
        names = tuple(name for name, _ in pairs)
        if self._slots is None:
            if odd := [name for name in names if not isinstance(name, str)]:
                raise UsageError(f"the name of a slot must be text, got {odd[0]!r}")
            self._slots = names
        elif names != self._slots:
            raise UsageError(f"samples must have the same slots: {list(self._slots)} before, {list(names)} now")
        return " ".join(f"{len(values)} {_numbers(name, values)}" for name, values in pairs) + "\n"


class MultiSlotStringDataGenerator(DataGenerator):
    """Samples whose values are text already; nothing is checked but that each slot has some.

    A slot may be one text: its characters are the values, so "1" is one and "19" are two.
    """

    def _gen_str(self, line: Sample) -> str:
        return (
            " ".join(f"{len(values)} {' '.join(map(str, values))}" for _, values in _pairs(line, list | tuple | str))
            + "\n"
        )


def _made(samples: Samples) -> Iterator[Any]:
    made = samples() if callable(samples) else samples
    if not isinstance(made, Iterable):
        raise UsageError(f"generate_sample and generate_batch must give samples, got {made!r}")
    return iter(made)


def _pairs(line: Any, kinds: Any = list | tuple) -> Sample:
    """The slots of a sample, if it looks like one; `kinds` are what may hold the values of a slot."""
    given = line
    if isinstance(line, Iterator):  # zip(names, values), as scripts write it
        line = list(line)
    if not isinstance(line, list | tuple) or not line:
        raise UsageError(f"a sample must be a list of (name, values), got {given!r}")
    for pair in line:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[1], kinds):
            raise UsageError(f"a slot must be (name, list of values), got {pair!r}")
        if not pair[1]:
            raise UsageError(f"slot {pair[0]!r} has no values; pad it")
    return line


def _numbers(name: str, values: Sequence[Any]) -> str:
    if not set(map(type, values)) <= {int, float}:
        values = [_plain(name, value) for value in values]
    for value in values:
        if not (_LEAST <= value <= _MOST if type(value) is int else math.isfinite(value)):
            raise UsageError(f"slot {name!r} has {value!r}; write ints of 64 bits and finite floats")
    return " ".join(map(repr, values))


def _plain(name: str, value: object) -> int | float:
    """A number of numpy, or another library's, as Python's own."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, Real) and not isinstance(value, bool):
        return float(value)
    raise UsageError(f"slot {name!r} has {value!r}; its values must be ints or floats")
