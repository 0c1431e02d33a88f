"""What pieces hold: rows of a table, blocks of dense parameters or kept tensors, as frozen data and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from fleet.checkpoint.files.fields import Fields, parse_json
from fleet.checkpoint.files.files import FileInfo
from fleet.checkpoint.files.tensor_form import Form
from fleet.errors import CheckpointError

DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class TableForm:
    """What rows look like; rows load only into a table of the same form."""

    width: int
    dtype: str
    """The dtype of the values: float32, float16 or bfloat16."""
    rule: str
    """Its name: rules with equally much state may give it other meanings."""
    state_width: int
    has_clicks: bool

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, fields: Fields) -> TableForm:
        """The form that `to_json` wrote; CheckpointError if a field is missing or out of range."""
        dtype = fields.text("dtype")
        if dtype not in DTYPES:
            raise CheckpointError(f"{fields.where} is damaged: unknown dtype {dtype!r}")
        return cls(
            fields.integer("width", 1, 2**31),
            dtype,
            fields.text("rule"),
            fields.integer("state_width", high=2**31),
            fields.flag("has_clicks"),
        )


@dataclass(frozen=True)
class TablePiece:
    """One file of rows: shards first_shard to last_shard - 1 of one table on one server."""

    kind: ClassVar[str] = "table"
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

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        return {"kind": self.kind, **vars(self), "file": self.file.to_json(), "form": self.form.to_json()}

    @classmethod
    def from_json(cls, fields: Fields) -> TablePiece:
        """The piece that `to_json` wrote; CheckpointError if a field is missing or out of range."""
        num_shards = fields.integer("num_shards", 1)
        last = fields.integer("last_shard", 1, num_shards)
        return cls(
            FileInfo.from_json(Fields(fields.table("file"), fields.where)),
            fields.text("table"),
            fields.integer("server"),
            fields.integer("first_shard", 0, last - 1),
            last,
            num_shards,
            fields.integer("rows"),
            fields.integer("waiting"),
            TableForm.from_json(Fields(fields.table("form"), fields.where)),
        )


@dataclass(frozen=True)
class RunPiece:
    """A sealed file with rows of one shard, of a table with rows on a disk (fleet.checkpoint.state.sealed)."""

    kind: ClassVar[str] = "run"
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

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        return {"kind": self.kind, **vars(self), "file": self.file.to_json()}

    @classmethod
    def from_json(cls, fields: Fields) -> RunPiece:
        """The piece that `to_json` wrote; CheckpointError if a field is missing or out of range."""
        keys = fields.integer("keys")
        return cls(
            FileInfo.from_json(Fields(fields.table("file"), fields.where)),
            fields.text("table"),
            fields.integer("server"),
            fields.integer("shard"),
            fields.integer("age"),
            keys,
            fields.integer("rows", 0, keys),
        )


@dataclass(frozen=True)
class BlockForm:
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

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, fields: Fields) -> BlockForm:
        """The block that `to_json` wrote; CheckpointError if a field is missing or out of range."""
        size = fields.integer("size")
        end = fields.integer("end", 0, size)
        return cls(
            fields.text("parameter"),
            fields.integer("begin", 0, end),
            end,
            size,
            fields.text("rule"),
            fields.integer("arrays", high=1000),
            fields.integer("scalars", high=1000),
        )


@dataclass(frozen=True)
class DensePiece:
    """One file of dense blocks of one server."""

    kind: ClassVar[str] = "dense"
    file: FileInfo
    server: int
    blocks: tuple[BlockForm, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        blocks = [block.to_json() for block in self.blocks]
        return {"kind": self.kind, "file": self.file.to_json(), "server": self.server, "blocks": blocks}

    @classmethod
    def from_json(cls, fields: Fields) -> DensePiece:
        """The piece that `to_json` wrote; CheckpointError if a field is missing or out of range."""
        return cls(
            FileInfo.from_json(Fields(fields.table("file"), fields.where)),
            fields.integer("server"),
            tuple(BlockForm.from_json(item) for item in fields.objects("blocks")),
        )


@dataclass(frozen=True)
class KeptPiece:
    """One file of tensors that one server keeps, each whole."""

    kind: ClassVar[str] = "kept"
    file: FileInfo
    server: int
    tensors: tuple[tuple[str, Form], ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        tensors = [{"name": name, **form.to_json()} for name, form in self.tensors]
        return {"kind": self.kind, "file": self.file.to_json(), "server": self.server, "tensors": tensors}

    @classmethod
    def from_json(cls, fields: Fields) -> KeptPiece:
        """The piece that `to_json` wrote; CheckpointError if a field is missing or out of range."""
        return cls(
            FileInfo.from_json(Fields(fields.table("file"), fields.where)),
            fields.integer("server"),
            tuple((item.text("name"), Form.from_json(item)) for item in fields.objects("tensors")),
        )


Piece: TypeAlias = TablePiece | RunPiece | DensePiece | KeptPiece
_KINDS: dict[str, Callable[[Fields], Piece]] = {
    TablePiece.kind: TablePiece.from_json,
    RunPiece.kind: RunPiece.from_json,
    DensePiece.kind: DensePiece.from_json,
    KeptPiece.kind: KeptPiece.from_json,
}


def pieces_to_text(pieces: Iterable[Piece]) -> str:
    """What a server sends to whoever commits."""
    return json.dumps({"pieces": [piece.to_json() for piece in pieces]})


def pieces_from_text(text: str, where: str) -> tuple[Piece, ...]:
    """The pieces that `pieces_to_text` was given; `where` names the sender in errors."""
    return read_pieces(parse_json(text, where))


def read_pieces(fields: Fields) -> tuple[Piece, ...]:
    """The pieces that stand in the field `pieces`."""
    found = []
    for item in fields.objects("pieces"):
        kind = item.text("kind")
        if kind not in _KINDS:
            raise CheckpointError(f"{item.where} is damaged: unknown kind {kind!r}")
        found.append(_KINDS[kind](item))
    return tuple(found)
