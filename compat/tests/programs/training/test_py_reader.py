"""`py_reader` and what reads from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.errors import UsageError, UsageTypeError
from fleet_paddle.programs.py_reader import create_py_reader_by_data, double_buffer, py_reader, read_file
from fleet_programs import layers
from fleet_programs.executor.lod import LoDTensor
from fleet_programs.executor.place import CPUPlace
from fleet_programs.executor.scope import scope_guard
from fleet_programs.feeding.reader import EOFException
from program_support.programs import building


@pytest.fixture
def built() -> Iterator[Any]:
    with building() as one, scope_guard(one.scope):
        yield one


def epoch(exe: static.Executor, reader: Any, out: Any) -> list[Any]:
    """What a script of 1.x does in an epoch."""
    seen = []
    reader.start()
    try:
        while True:
            seen.append(exe.run(fetch_list=[out])[0])
    except EOFException:
        reader.reset()
    return seen


def test_a_py_reader_makes_the_variables_of_its_program(built: Any) -> None:
    reader = double_buffer(
        py_reader(4, [(-1, 2), (-1, 1)], ["float32", "int64"], lod_levels=[0, 1]), place=CPUPlace(), name="b"
    )
    x, words = read_file(reader)
    assert (x.shape, words.lod_level, words.dtype) == ((-1, 2), 1, "int64")
    total = layers.reduce_sum(x) + layers.cast(layers.reduce_sum(words), "float32")
    samples: list[Any] = [([1, 2], [3]), ([0, 0], [4, 5])]
    reader.decorate_paddle_reader(lambda: iter([samples, samples[:1]]))
    exe = static.Executor()
    for _ in range(2):
        assert [float(one[0]) for one in epoch(exe, reader, total)] == [15.0, 6.0]
    reader.decorate_tensor_provider(lambda: iter([[np.ones((1, 2), np.float32), LoDTensor(np.array([[7]]), [0, 1])]]))
    assert [float(one[0]) for one in epoch(exe, reader, total)] == [9.0]
    assert (reader.iterable, reader.queue.size(), reader.queue.capacity()) == (False, 0, 4)
    other = create_py_reader_by_data(2, [x], name="again")
    assert read_file(other) is x
    for shapes in ([(-1, 1)], []):
        with pytest.raises(UsageError, match="shapes, dtypes and lod_levels must be as many"):
            py_reader(2, shapes, [])
    take: Any
    for take in (read_file, double_buffer):
        with pytest.raises(UsageTypeError, match="reader must come from py_reader"):
            take(x)
