"""Inference models as bytes: a program and its values, for scripts that keep them in files of their own.

program = normalize_program(main, [x], [prediction])
save_to_file("ctr.pdmodel", serialize_program([x], [prediction]))
save_to_file("ctr.pdiparams", serialize_persistables([x], [prediction], exe))

The bytes are those that `save_inference_model` writes, so that `load_inference_model` takes such files, and what is
read here may be PaddlePaddle's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fleet.errors import CheckpointError, UsageError, UsageTypeError
from fleet_paddle.foreign.loading import load_vars
from fleet_paddle.foreign.programs import read_program
from fleet_programs.io.files import Replacing, write_alone
from fleet_programs.io.inference import prune
from fleet_programs.io.variables import check_executor, chosen, is_persistable, program_of, values_of
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable

__all__ = [
    "deserialize_persistables",
    "deserialize_program",
    "load_from_file",
    "normalize_program",
    "save_to_file",
    "serialize_persistables",
    "serialize_program",
]

Several = Sequence[Variable] | Variable
Place = str | os.PathLike[str]


def normalize_program(program: Program, feed_vars: Several, fetch_vars: Several) -> Program:
    """The part of a program that computes `fetch_vars` from `feed_vars`, as in evaluation; another program."""
    return prune(program_of(program), _names("feed_vars", feed_vars), _names("fetch_vars", fetch_vars))


def serialize_program(feed_vars: Several, fetch_vars: Several, program: Program | None = None) -> bytes:
    """That part of a program, or of the default one, as bytes."""
    return normalize_program(program_of(program), feed_vars, fetch_vars).to_json().encode()


def serialize_persistables(
    feed_vars: Several, fetch_vars: Several, executor: Any, program: Program | None = None
) -> bytes:
    """The values of the variables of that part that last, from the global scope."""
    check_executor(executor)
    part = normalize_program(program_of(program), feed_vars, fetch_vars)
    values = values_of(part, chosen(part, None, is_persistable))
    with _file() as path:
        write_alone(path, values)
        return path.read_bytes()


def deserialize_program(data: bytes) -> Program:
    """The program of bytes, Fleet's or PaddlePaddle's; CheckpointError if they are neither."""
    _check_bytes("deserialize_program", data)
    if data.lstrip()[:1] != b"{":
        with _file(data) as path:
            return read_program(path)[0]
    try:
        return Program.from_json(data.decode())
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"deserialize_program: the data is no program: {error}") from None


def deserialize_persistables(program: Program, data: bytes, executor: Any) -> None:
    """Give the variables of a program that last the values of bytes, in the global scope: all of them, or none."""
    _check_bytes("deserialize_persistables", data)
    with _file(data) as path:
        load_vars(executor, path.parent, program_of(program), predicate=is_persistable, filename=path.name)


def save_to_file(path: Place, content: bytes) -> None:
    """Write bytes to a file, whose folder is made; a write that fails leaves the file that was there."""
    _check_bytes("save_to_file", content)
    place = Path(path)
    if not place.name:
        raise UsageError(f"save_to_file: path must end in a name, got {os.fspath(path)!r}")
    with Replacing(place.parent, is_alone=True) as replacing:
        replacing.data(place.name, content)


def load_from_file(path: Place) -> bytes:
    """The bytes of a file."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read {os.fspath(path)}: {error.strerror or error}") from error


def _names(what: str, given: Any) -> list[str]:
    several = [given] if isinstance(given, Variable) else given
    if not isinstance(several, list | tuple) or not all(isinstance(one, Variable) for one in several):
        raise UsageTypeError(f"{what} must be a variable or a list of variables, got {given!r}")
    if not several and what == "fetch_vars":
        raise UsageError("fetch_vars must have at least one variable")
    return [one.name for one in several]


def _check_bytes(what: str, data: Any) -> None:
    if not isinstance(data, bytes):
        raise UsageTypeError(f"{what}: give bytes, such as load_from_file() reads, got {type(data).__name__}")


@contextmanager
def _file(data: bytes | None = None) -> Iterator[Path]:
    """A file for as long as it is needed: what reads and writes variables takes files. Errors do not name it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        if data is not None:
            path.write_bytes(data)
        try:
            yield path
        except CheckpointError as error:
            raise CheckpointError(str(error).replace(str(path), "the data")) from None
