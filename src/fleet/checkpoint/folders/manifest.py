"""The manifest of a checkpoint: what it holds and in which files, as frozen data and as JSON.

It is written last, so a folder with a manifest is a complete checkpoint. Names of tables and parameters, placement and
sizes stand here and nowhere else; file names are for people.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from fleet.checkpoint.files.fields import Fields, Formed
from fleet.checkpoint.files.files import FileInfo
from fleet.checkpoint.files.forms import (
    BlockForm,
    ChangedPiece,
    DensePiece,
    KeptPiece,
    Piece,
    RunPiece,
    TablePiece,
    read_pieces,
)
from fleet.checkpoint.folders.contents import OfServers, refuse_doubles, refuse_gaps
from fleet.errors import CheckpointError


@dataclass(frozen=True)
class Parent(Formed):
    """The save that an increment builds on."""

    folder: str
    """Where it is, seen from the increment."""
    save: str
    digest: str
    """The SHA-256 of its manifest."""


@dataclass(frozen=True)
class Manifest(
    OfServers,
    file="manifest.json",
    what="checkpoint",
    format="fleet-checkpoint",
    reader="fleet.load_model(), or fleet.Checkpoint in a job with servers,",
):
    """A checkpoint: its pieces, and what somebody needs to know who loads it."""

    pieces: tuple[Piece, ...]
    job: dict[str, Any] = field(default_factory=dict)
    """The job's declaration; this package does not look into it."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Anything else that the caller wants back, as JSON."""
    others: tuple[FileInfo, ...] = ()
    """Files of the caller's own, which belong to the checkpoint."""
    parent: Parent | None = None
    """What the pieces of changed rows build on; None: everything is here."""
    formerly: tuple[str, ...] = ()
    """The SHA-256 of manifests that stood here before rows were forgotten: increments may name those."""

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """The files of all pieces, then the caller's own."""
        return (*(piece.file for piece in self.pieces), *self.others)

    @property
    def tables(self) -> dict[str, tuple[TablePiece, ...]]:
        """The pieces of each table, in order of server and shard."""
        found: dict[str, list[TablePiece]] = {}
        for piece in self.pieces:
            if isinstance(piece, TablePiece):
                found.setdefault(piece.table, []).append(piece)
        return {name: tuple(sorted(found[name], key=lambda p: (p.server, p.first_shard))) for name in sorted(found)}

    def changed(self, table: str, server: int) -> tuple[ChangedPiece, ...]:
        """The pieces with what changed of a table on one server; none where the server has written all of it."""
        found = [piece for piece in self.pieces if isinstance(piece, ChangedPiece)]
        return tuple(piece for piece in found if (piece.table, piece.server) == (table, server))

    def runs(self, table: str) -> tuple[RunPiece, ...]:
        """The sealed files of a table with rows on a disk, in order of server and shard, the oldest first."""
        found = [piece for piece in self.pieces if isinstance(piece, RunPiece) and piece.table == table]
        return tuple(sorted(found, key=lambda piece: (piece.server, piece.shard, -piece.age)))

    @property
    def dense(self) -> tuple[DensePiece, ...]:
        """The pieces with dense parameters."""
        return tuple(piece for piece in self.pieces if isinstance(piece, DensePiece))

    @property
    def kept(self) -> tuple[KeptPiece, ...]:
        """The pieces with tensors that servers only keep."""
        return tuple(piece for piece in self.pieces if isinstance(piece, KeptPiece))

    def rows(self, table: str) -> int:
        """Rows of a table, over all servers."""
        return sum(piece.rows for piece in self.tables[table]) + sum(run.rows for run in self.runs(table))

    def check(self, where: str) -> None:
        refuse_doubles((f"piece {file.name}" for file in self.files), where)
        changed: dict[str, set[int]] = {}
        for piece in self.pieces:
            if isinstance(piece, ChangedPiece):
                changed.setdefault(piece.table, set()).add(piece.server)
        if changed and self.parent is None:
            raise CheckpointError(f"{where} is damaged: it has changed rows and does not say of which save")
        for table in changed.keys() - self.tables.keys():
            if changed[table] != set(range(self.num_servers)):
                servers = sorted(changed[table])
                raise CheckpointError(f"{where} is damaged: it has changes of {table!r} from servers {servers} only")
        for table, pieces in self.tables.items():
            _check_table(where, table, pieces, self.num_servers, changed.get(table, set()))
            _check_runs(where, table, self.runs(table), pieces[0].num_shards)
        _check_dense(where, [block for piece in self.dense for block in piece.blocks])
        refuse_doubles((f"tensor {name!r}" for piece in self.kept for name, _ in piece.tensors), where)

    def to_json(self) -> dict[str, Any]:
        return {
            **super().to_json(),
            "job": self.job,
            "extra": self.extra,
            "pieces": [piece.to_json() for piece in self.pieces],
            **({"others": [file.to_json() for file in self.others]} if self.others else {}),
            **({"parent": self.parent.to_json()} if self.parent is not None else {}),
            **({"formerly": list(self.formerly)} if self.formerly else {}),
        }

    @classmethod
    def read(cls, fields: Fields) -> dict[str, Any]:
        return {
            **super().read(fields),
            "pieces": read_pieces(fields),
            "job": fields.table("job"),
            "extra": fields.table("extra"),
            "others": tuple(map(FileInfo.from_json, fields.objects("others"))) if "others" in fields.value else (),
            "parent": Parent.from_json(Fields(fields.table("parent"), fields.where))
            if "parent" in fields.value
            else None,
            "formerly": tuple(map(str, fields.items("formerly"))) if "formerly" in fields.value else (),
        }


def _check_table(
    where: str, table: str, pieces: Sequence[TablePiece], num_servers: int, changed: Collection[int]
) -> None:
    """`changed`: the servers that have written changes in place of the table."""
    by_server = {server: list(found) for server, found in groupby(pieces, lambda piece: piece.server)}
    for server in range(num_servers):
        if (server in by_server) == (server in changed):
            raise CheckpointError(f"{where} has no piece of table {table!r} from server {server} of {num_servers}")
    if len(by_server) + len(changed) != num_servers:
        raise CheckpointError(f"{where} has a piece of table {table!r} from server {max(by_server)} of {num_servers}")
    first = pieces[0]
    for piece in pieces:
        if (piece.form, piece.num_shards) != (first.form, first.num_shards):
            raise CheckpointError(
                f"{where}: servers {first.server} and {piece.server} saved other forms of table {table!r}: "
                f"{first.form} in {first.num_shards} shards, {piece.form} in {piece.num_shards} shards"
            )
    for server, own in by_server.items():
        at = 0
        for piece in own:
            if piece.first_shard != at:
                raise CheckpointError(f"{where} misses or doubles shard {at} of table {table!r} from server {server}")
            at = piece.last_shard
        if at != first.num_shards:
            raise CheckpointError(f"{where} misses shard {at} of table {table!r} from server {server}")


def _check_runs(where: str, table: str, runs: Sequence[RunPiece], num_shards: int) -> None:
    for (server, shard), found in groupby(runs, lambda piece: (piece.server, piece.shard)):
        ages = [piece.age for piece in found]
        if ages != list(range(len(ages)))[::-1] or shard >= num_shards:
            raise CheckpointError(
                f"{where} misses or doubles a file of shard {shard} of {table!r} from server {server}"
            )


def _check_dense(where: str, blocks: Sequence[BlockForm]) -> None:
    ordered = sorted(blocks, key=lambda block: (block.parameter, block.begin, block.end))
    for parameter, found in groupby(ordered, lambda block: block.parameter):
        own = list(found)
        if len({block.size for block in own}) > 1:
            raise CheckpointError(f"{where}: blocks disagree about the number of elements of parameter {parameter!r}")
        refuse_gaps(((block.begin, block.end) for block in own), own[0].size, where, f"parameter {parameter!r}")
