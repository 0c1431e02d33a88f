"""`py_reader`: a reader that makes the variables of a program, which reads from it by itself.

reader = py_reader(capacity=64, shapes=[(-1, 13), (-1, 1)], dtypes=["float32", "float32"])
x, y = read_file(reader)
...
reader.decorate_paddle_reader(batches)     # batches() yields lists of samples
reader.start()
try:
    while True:
        exe.run(fetch_list=[loss])
except EOFException:
    reader.reset()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import UsageError, UsageTypeError
from fleet_programs.executor.feeds import device_for
from fleet_programs.expressions import names
from fleet_programs.feeding.reader import PyReader
from fleet_programs.layers.io import fed
from fleet_programs.program.program import default_main_program
from fleet_programs.program.variable import Variable


def py_reader(
    capacity: int,
    shapes: Sequence[Sequence[int]],
    dtypes: Sequence[Any],
    lod_levels: Sequence[int] | None = None,
    name: str | None = None,
    use_double_buffer: bool = True,
) -> PyReader:
    """A reader of new variables of these shapes and dtypes; `read_file` gives them. Their names begin with `name`."""
    levels = [0] * len(shapes) if lod_levels is None else list(lod_levels)
    if not shapes or not len(shapes) == len(dtypes) == len(levels):
        raise UsageError(
            f"py_reader: shapes, dtypes and lod_levels must be as many, one for each variable, got {len(shapes)}, "
            f"{len(dtypes)} and {len(levels)}"
        )
    stem = name or names.generate("py_reader", lambda one: default_main_program().global_block().has_var(f"{one}.0"))
    whole = zip(shapes, dtypes, levels, strict=True)
    made = [fed(f"{stem}.{place}", shape, dtype, level) for place, (shape, dtype, level) in enumerate(whole)]
    return PyReader(made, capacity, use_double_buffer, iterable=False)


def create_py_reader_by_data(
    capacity: int,
    feed_list: Sequence[Variable],
    name: str | None = None,  # noqa: ARG001 - the variables have their names
    use_double_buffer: bool = True,
) -> PyReader:
    """A reader of variables that are there."""
    return PyReader(feed_list, capacity, use_double_buffer, iterable=False)


def read_file(reader: PyReader) -> Any:
    """The variables that a reader gives values for; alone if it is one."""
    if not isinstance(reader, PyReader):
        raise UsageTypeError(f"read_file: reader must come from py_reader(), got {type(reader).__name__}")
    return reader.variables[0] if len(reader.variables) == 1 else list(reader.variables)


def double_buffer(reader: PyReader, place: object = None, name: str | None = None) -> PyReader:  # noqa: ARG001
    """The reader, which sends the batches of generators that it gets from now on to `place` ahead."""
    if not isinstance(reader, PyReader):
        raise UsageTypeError(f"double_buffer: reader must come from py_reader(), got {type(reader).__name__}")
    if place is not None:
        device_for(place)
        reader.place = place
    return reader
