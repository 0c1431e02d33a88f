"""An inference copy: values without state, in plain numpy files that any program can read.

    inference.json                              what is here
    TABLE.part-000-of-002.keys.npy              int64, ascending: the keys that server 0 of 2 held
    TABLE.part-000-of-002.values.npy            float32 [rows, width], in the order of the keys
    dense/NAME.npy                              a parameter or buffer of the model, in its shape; mostly float32

Names of tables and parameters are percent-encoded. A copy begins, commits and is found like a checkpoint, by
`begin(folder, InferenceIndex)` and so on; `fleet.checkpoint.state.export` writes the files.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fleet.checkpoint.files.fields import Fields, Formed, parse_json
from fleet.checkpoint.files.files import FileInfo, read_file
from fleet.checkpoint.folders.contents import OfServers, refuse_doubles
from fleet.checkpoint.folders.folder import find, read_contents
from fleet.errors import CheckpointError

DENSE_DTYPES = (
    *("float16", "float32", "float64", "complex64", "complex128", "bool"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)


@dataclass(frozen=True)
class Unseen(Formed):
    """What an id without a row reads as, "zeros" or "initial", and all that the first value of a row depends on."""

    LATER = ("max_norm", "norm_type")
    reads: str = "zeros"
    initializer: str = "constant"
    args: Mapping[str, float] = field(default_factory=dict)
    """The arguments of the initialiser, by name."""
    seed: int = 0
    dtype: str = "float32"
    """What rows were stored as on the servers: first values are rounded to it."""
    max_norm: float | None = None
    norm_type: float | None = 2.0


@dataclass(frozen=True)
class TablePart(Formed):
    """The rows of a table that one server held."""

    LATER = ("unseen",)
    table: str
    server: int
    rows: int
    width: int
    keys: FileInfo
    values: FileInfo
    unseen: Unseen = Unseen()

    @classmethod
    def check_form(cls, fields: Fields) -> None:
        fields.integer("width", 1)


@dataclass(frozen=True)
class DenseArray(Formed):
    """One dense parameter, or a buffer."""

    LATER = ("dtype",)
    parameter: str
    shape: tuple[int, ...]
    file: FileInfo
    dtype: str = "float32"
    """As numpy calls it."""

    @classmethod
    def check_form(cls, fields: Fields) -> None:
        if "dtype" in fields.value:
            fields.choice("dtype", DENSE_DTYPES)


def parts_to_text(parts: Iterable[TablePart]) -> str:
    """What a server sends to whoever commits."""
    return json.dumps({"tables": [part.to_json() for part in parts]})


def parts_from_text(text: str, where: str) -> tuple[TablePart, ...]:
    """The parts that `parts_to_text` was given; `where` names the sender in errors."""
    return tuple(TablePart.from_json(item) for item in parse_json(text, where).objects("tables"))


@dataclass(frozen=True)
class InferenceIndex(
    OfServers,
    file="inference.json",
    what="inference copy",
    format="fleet-inference",
    reader="fleet.load_inference_model()",
):
    """What an inference copy holds, in which files."""

    tables: tuple[TablePart, ...]
    dense: tuple[DenseArray, ...] = ()
    schema: Mapping[str, Any] | None = None
    """How raw columns become ids, for whoever knows; `fleet.data.Schema.to_plain` gave it."""

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """Keys and values of all tables, then the dense parameters."""
        parts = (file for part in self.tables for file in (part.keys, part.values))
        return (*parts, *(array.file for array in self.dense))

    def check(self, where: str) -> None:
        parameters = (f"parameter {array.parameter}" for array in self.dense)
        refuse_doubles((*(file.name for file in self.files), *parameters), where)
        for table in sorted({part.table for part in self.tables}):
            own = [part for part in self.tables if part.table == table]
            if sorted(part.server for part in own) != list(range(self.num_servers)):
                servers = sorted(part.server for part in own)
                raise CheckpointError(f"{where} has table {table!r} from servers {servers} of {self.num_servers}")
            for what in ("width", "unseen"):
                if any(getattr(part, what) != getattr(own[0], what) for part in own):
                    raise CheckpointError(f"{where}: servers disagree about the {what} of table {table!r}")

    def to_json(self) -> dict[str, Any]:
        return {
            **super().to_json(),
            "tables": [part.to_json() for part in self.tables],
            "dense": [array.to_json() for array in self.dense],
            **({} if self.schema is None else {"schema": self.schema}),
        }

    @classmethod
    def read(cls, fields: Fields) -> dict[str, Any]:
        return {
            **super().read(fields),
            "tables": tuple(TablePart.from_json(item) for item in fields.objects("tables")),
            "dense": tuple(DenseArray.from_json(item) for item in fields.objects("dense")),
            "schema": fields.value.get("schema"),
        }


class Inference(NamedTuple):
    """Keys (ascending) and values of each table, all servers' together, and the model's other tensors."""

    tables: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]
    dense: dict[str, npt.NDArray[Any]]


def read_inference(folder: str | os.PathLike[str]) -> Inference:
    """Everything in an inference copy, verified; tables hold each key once."""
    where = find(folder, InferenceIndex)
    index = read_contents(where, InferenceIndex)
    names = sorted({part.table for part in index.tables})
    tables = {name: read_table(where, [part for part in index.tables if part.table == name]) for name in names}
    return Inference(tables, read_dense(where, index))


def read_dense(where: Path, index: InferenceIndex) -> dict[str, npt.NDArray[Any]]:
    """Layers and buffers by name, verified."""
    return {array.parameter: _read_array(where, array.file, array.dtype, array.shape) for array in index.dense}


def read_table(folder: Path, parts: list[TablePart]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The rows of all parts of one table, which lie in `folder`, in ascending order of their keys."""
    keys = np.concatenate([_read_array(folder, part.keys, np.int64, (part.rows,)) for part in parts])
    order = np.argsort(keys, kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    keys = keys[order]
    if (keys[1:] == keys[:-1]).any():
        raise CheckpointError(f"{folder} is damaged: table {parts[0].table!r} has a key twice")
    values = np.empty((len(keys), parts[0].width), np.float32)
    at = 0
    for part in parts:
        values[ranks[at : at + part.rows]] = _read_array(folder, part.values, np.float32, (part.rows, part.width))
        at += part.rows
    return keys, values


def _read_array(folder: Path, info: FileInfo, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    path = folder / info.name
    data = read_file(path, info)
    header = io.BytesIO(data[:4096].tobytes())
    try:
        if np.lib.format.read_magic(header) != (1, 0):
            raise ValueError("another version of the npy format")
        found_shape, in_columns, found_dtype = np.lib.format.read_array_header_1_0(header)
        if (found_shape, in_columns, found_dtype) != (shape, False, np.dtype(dtype)):
            raise ValueError(f"it has {found_dtype}{list(found_shape)}, expected {np.dtype(dtype)}{list(shape)}")
        return data[header.tell() :].view(dtype).reshape(shape)
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from None
