"""What pieces hold: rows of a table, blocks of dense parameters or kept tensors, as frozen data and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from fleet.checkpoint.files.fields import Fields, Formed, parse_json
from fleet.checkpoint.files.files import FileInfo

# The format's name of each type, and the numpy type that holds its bits.
DTYPES: dict[str, tuple[str, str]] = {
    "float64": ("F64", "<f8"), "float32": ("F32", "<f4"), "float16": ("F16", "<f2"), "bfloat16": ("BF16", "<u2"),
    "float8_e4m3fn": ("F8_E4M3", "u1"), "float8_e5m2": ("F8_E5M2", "u1"), "complex64": ("C64", "<u8"),
    "int64": ("I64", "<i8"), "int32": ("I32", "<i4"), "int16": ("I16", "<i2"), "int8": ("I8", "i1"),
    "uint64": ("U64", "<u8"), "uint32": ("U32", "<u4"), "uint16": ("U16", "<u2"), "uint8": ("U8", "u1"),
    "bool": ("BOOL", "u1"),
}  # fmt: skip


@dataclass(frozen=True)
class Form(Formed):
    """Type and shape of a whole tensor."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def code(self) -> str:
        """What safetensors calls the type: `F32`, `BF16`, ..."""
        return DTYPES[self.dtype][0]

    @property
    def bits(self) -> np.dtype[Any]:
        """The numpy type of its elements' bits."""
        return np.dtype(DTYPES[self.dtype][1])

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"

    @classmethod
    def check_form(cls, fields: Fields) -> None:
        fields.choice("dtype", DTYPES)


ROW_DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class TableForm(Formed):
    """What rows look like; rows load only into a table of the same form."""

    width: int
    dtype: str
    """The dtype of the values: float32, float16 or bfloat16."""
    rule: str
    """Its name: rules with equally much state may give it other meanings."""
    state_width: int
    has_clicks: bool

    @classmethod
    def check_form(cls, fields: Fields) -> None:
        fields.choice("dtype", ROW_DTYPES)
        fields.integer("width", 1, 2**31)
        fields.integer("state_width", high=2**31)


class FormedPiece(Formed):
    """A file of what servers have saved; its form begins with its kind."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **super().to_json()}


@dataclass(frozen=True)
class TablePiece(FormedPiece):
    """One file of rows: shards first_shard to last_shard - 1 of one table on one server."""

    kind = "table"
    file: FileInfo
    table: str
    server: int
    first_shard: int
    last_shard: int
    num_shards: int
    rows: int
    waiting: int
    """Keys that have been seen but have no row yet."""
    form: TableForm

    @classmethod
    def check_form(cls, fields: Fields) -> None:
        last = fields.integer("last_shard", 1, fields.integer("num_shards", 1))
        fields.integer("first_shard", 0, last - 1)


@dataclass(frozen=True)
class ChangedPiece(FormedPiece):
    """One file of what changed of a table on one server since the parent of this save."""

    kind = "changed"
    file: FileInfo
    table: str
    server: int
    rows: int
    waiting: int
    gone: int
    """Keys that are neither; they may have been."""
    form: TableForm


@dataclass(frozen=True)
class RunPiece(FormedPiece):
    """A sealed file with rows of one shard, of a table with rows on a disk (fleet.checkpoint.state.sealed)."""

    kind = "run"
    file: FileInfo
    table: str
    server: int
    shard: int
    age: int
    """0: the newest of its shard. What a newer file or the shard's other piece says of a key holds."""
    keys: int
    """How many keys the files of this shard have, all together."""
    rows: int
    """How many of them are in no other piece; 0 but for the newest file."""

    @classmethod
    def check_form(cls, fields: Fields) -> None:
        fields.integer("rows", 0, fields.integer("keys"))


@dataclass(frozen=True)
class BlockForm(Formed):
    """Elements begin to end - 1 of a flattened dense parameter, and the shape of its rule's state.

    The state is `arrays` floats per element and `scalars` floats per block.
    """

    parameter: str
    begin: int
    end: int
    size: int
    """Elements of the whole parameter."""
    rule: str
    arrays: int = 0
    scalars: int = 0

    def __len__(self) -> int:
        return self.end - self.begin

    @classmethod
    def check_form(cls, fields: Fields) -> None:
        end = fields.integer("end", 0, fields.integer("size"))
        fields.integer("begin", 0, end)
        for name in ("arrays", "scalars"):
            fields.integer(name, high=1000)


@dataclass(frozen=True)
class DensePiece(FormedPiece):
    """One file of dense blocks of one server."""

    kind = "dense"
    file: FileInfo
    server: int
    blocks: tuple[BlockForm, ...]


@dataclass(frozen=True)
class KeptPiece(FormedPiece):
    """One file of tensors that one server keeps, each whole."""

    kind = "kept"
    file: FileInfo
    server: int
    tensors: tuple[tuple[str, Form], ...]


Piece: TypeAlias = TablePiece | ChangedPiece | RunPiece | DensePiece | KeptPiece
_KINDS: dict[str, type[Piece]] = {one.kind: one for one in (TablePiece, ChangedPiece, RunPiece, DensePiece, KeptPiece)}


def pieces_to_text(pieces: Iterable[Piece]) -> str:
    """What a server sends to whoever commits."""
    return json.dumps({"pieces": [piece.to_json() for piece in pieces]})


def pieces_from_text(text: str, where: str) -> tuple[Piece, ...]:
    """The pieces that `pieces_to_text` was given; `where` names the sender in errors."""
    return read_pieces(parse_json(text, where))


def read_pieces(fields: Fields) -> tuple[Piece, ...]:
    """The pieces that stand in the field `pieces`."""
    return tuple(_KINDS[item.choice("kind", _KINDS)].from_json(item) for item in fields.objects("pieces"))
