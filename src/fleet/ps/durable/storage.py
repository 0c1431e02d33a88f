"""A server's part of a checkpoint or an inference copy, written into a folder that all servers share, and read back."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fleet import _native, checkpoint
from fleet.checkpoint.files.files import why_not_written
from fleet.checkpoint.files.names import is_of_server
from fleet.errors import CheckpointError
from fleet.ps.held.applicable import NoRoomError
from fleet.ps.held.holdings import Holdings
from fleet.ps.held.sealed import SealedTable
from fleet.ps.held.unseen import unseen_of
from fleet.ps.job.dense_spec import DenseBlock
from fleet.ps.job.spec import JobSpec

Floats = NDArray[np.float32]

_log = logging.getLogger(__name__)


class Placed(Protocol):
    """A server's place in a job."""

    @property
    def job(self) -> JobSpec:
        """The job."""

    @property
    def server(self) -> int:
        """The index of the server."""


class Loaded(NamedTuple):
    """What a server took from a checkpoint."""

    rows: int
    version: int


def check_folder(holdings: Holdings, folder: str | Path) -> Path:
    """The path of a folder that this server is to write into or read from; CheckpointError if it does not see it."""
    path = Path(folder)
    if not _is_folder(path):
        raise CheckpointError(
            f"server {holdings.server} does not see the folder {str(folder)!r}; servers and workers must share a file "
            "system"
        )
    return path


def clear_former(holdings: Holdings, path: Path) -> None:
    """Delete what a former life of this server wrote into the folder of a save."""
    try:
        for file in path.iterdir():
            if is_of_server(file.name, holdings.server, holdings.job.num_servers) and file.is_file():
                file.unlink(missing_ok=True)
    except OSError as error:
        raise CheckpointError(why_not_written(path, error, 0)) from error


class ServerContents(NamedTuple):
    """What a server writes of a checkpoint: its tables, which may be copies, and copies of its other tensors."""

    holdings: Holdings
    tables: Sequence[checkpoint.ReadableTable | checkpoint.TouchedRows]
    """A table of which it is known what has changed is only that."""
    blocks: Sequence[checkpoint.BlockData]
    kept: Sequence[NDArray[Any]]
    dense: Sequence[Floats] = ()
    """The values of each dense group, which are those of the blocks."""

    @classmethod
    def of(
        cls, holdings: Holdings, tables: Sequence[checkpoint.ReadableTable | checkpoint.TouchedRows]
    ) -> ServerContents:
        """These tables, with the dense blocks and the kept tensors as they are now."""
        groups = holdings.snapshot()
        blocks = blocks_of(holdings, groups)
        return cls(holdings, tables, blocks, holdings.kept, [values for values, _ in groups])


def save(holdings: Holdings, folder: str | Path, moved: Callable[[], None] = lambda: None, *, values_only: bool) -> str:
    """Write this server's files into `folder`; returns an account of them as JSON. Tables are locked shard by shard."""
    path = check_folder(holdings, folder)
    if values_only:
        return export(ServerContents(holdings, holdings.tables, (), ()), path, moved)
    return write(ServerContents.of(holdings, holdings.tables), path, moved)


def _note_saved(holdings: Holdings, what: str, path: Path, began_at: float) -> None:
    rows, took_s = sum(map(len, holdings.tables)), time.monotonic() - began_at
    _log.info("saved %s of %d rows to %s in %.1f s", what, rows, path, took_s)


def export(contents: ServerContents, path: Path, moved: Callable[[], None] = lambda: None) -> str:
    """Write a server's part of an inference copy, which is the values of its tables."""
    holdings, began_at = contents.holdings, time.monotonic()
    job, server = holdings.job, holdings.server
    clear_former(holdings, path)
    account = checkpoint.parts_to_text(
        checkpoint.export_table(
            table,
            spec.name,
            path,
            server,
            job.num_servers,
            dtype=spec.dtype,
            unseen=unseen_of(spec),
            moved=moved,
        )
        for spec, table in zip(job.tables, contents.tables, strict=True)
        if not isinstance(table, checkpoint.TouchedRows)
    )
    _note_saved(holdings, "values", path, began_at)
    return account


def write(contents: ServerContents, path: Path, moved: Callable[[], None] = lambda: None) -> str:
    """Write a server's part of a checkpoint; `moved` is called after each file of a table, and at the end."""
    holdings, began_at = contents.holdings, time.monotonic()
    job, server = holdings.job, holdings.server
    clear_former(holdings, path)
    pieces: list[checkpoint.Piece] = []
    for spec, table in zip(job.tables, contents.tables, strict=True):
        place, rule = (spec.name, path, server, job.num_servers), _rule(holdings, spec.rule.name)
        if isinstance(table, checkpoint.TouchedRows):
            pieces += checkpoint.save_changed(table, *place, dtype=spec.dtype, rule=rule, moved=moved)
        elif table.has_disk:
            pieces += checkpoint.save_sealed(_sealable(table), *place, dtype=spec.dtype, rule=rule, moved=moved)
        else:
            pieces += checkpoint.save_table(table, *place, dtype=spec.dtype, rule=rule, moved=moved)
    pieces += checkpoint.save_dense(path, server, job.num_servers, contents.blocks)
    kept = [(*form, bits) for form, bits in zip(_kept(holdings), contents.kept, strict=True)]
    pieces += checkpoint.save_kept(path, server, job.num_servers, kept)
    moved()
    _note_saved(holdings, "values and state", path, began_at)
    return checkpoint.pieces_to_text(pieces)


def _sealable(table: checkpoint.ReadableTable) -> checkpoint.SealableTable:
    assert isinstance(table, _native.Table | SealedTable)
    return table


def check(holdings: Holdings, folder: Path) -> int:
    """Read and compare all that `load` would take over, and change nothing; the version that was saved."""
    chain = _opened(holdings, folder)
    where, manifest = chain[-1]
    _load_dense(holdings, manifest, where)
    checkpoint.load_kept(manifest, where, _kept(holdings), _passing(holdings))
    for part in _table_parts(holdings, chain):
        part.check()
    return manifest.version


class HalfLoadedError(CheckpointError):
    """A checkpoint that could not be read to its end, after its first rows had taken the place of others."""


def load(holdings: Holdings, folder: Path) -> Loaded:
    """Replace everything by this server's part of a checkpoint, which any number of servers may have written.

    Tables are read piece by piece, each compared with its sum before its rows are taken over; `check` compares all of
    them before anything is. NoRoomError where a part was loaded, and there was no room for the rest.
    """
    began_at = time.monotonic()
    chain = _opened(holdings, folder)
    where, manifest = chain[-1]
    dense = _load_dense(holdings, manifest, where)  # read before anything is replaced
    kept = checkpoint.load_kept(manifest, where, _kept(holdings), _passing(holdings))
    parts, rows = _table_parts(holdings, chain), 0
    try:
        for part in parts:
            rows += part.load()
        holdings.restore(dense, kept)
    except Exception as error:
        what = f"{error}; server {holdings.server} now has a part of this checkpoint and takes nothing"
        if isinstance(error, OSError | NoRoomError) and not isinstance(error, CheckpointError):  # a disk of rows
            raise NoRoomError(f"{what}; it is loaded again when there is room") from error
        raise HalfLoadedError(f"{what}: load one that is whole") from error
    took_s = time.monotonic() - began_at
    _log.info("loaded %d rows of step %d from %s in %.1f s", rows, manifest.version, where, took_s)
    return Loaded(rows, manifest.version)


def _opened(holdings: Holdings, folder: Path) -> Sequence[checkpoint.ChainLink]:
    """The base, and the increments on it; what is no row of a table is in the last of them."""
    chain = checkpoint.read_chain(check_folder(holdings, folder))
    _check_mode(holdings.job, chain[-1].manifest, chain[-1].folder)
    return chain


def _table_parts(holdings: Holdings, chain: Sequence[checkpoint.ChainLink]) -> list[checkpoint.TableLoad]:
    """What this server loads of each table; CheckpointError if one does not fit."""
    job = holdings.job
    return [
        checkpoint.TableLoad(
            table,
            chain,
            spec.name,
            holdings.server,
            job.num_servers,
            dtype=spec.dtype,
            rule=_rule(holdings, spec.rule.name),
            values_only=job.mode != "geo" and spec.rule.name == "sum",
        )
        for spec, table in zip(job.tables, holdings.tables, strict=True)
    ]


def _check_mode(job: JobSpec, manifest: checkpoint.Manifest, where: Path) -> None:
    """CheckpointError if what was saved has no state of the rules that train here, or another one."""
    was = manifest.job.get("mode", job.mode)
    trains = bool(job.dense.groups) or any(spec.rule.name != "sum" for spec in job.tables)
    if trains and was != job.mode and "geo" in (was, job.mode):
        raise CheckpointError(
            f"{where} was saved in {was} mode and this job is in {job.mode} mode: in geo mode workers have the state "
            "of the optimizer, in every other the servers; train in the mode that it was saved in"
        )


def _load_dense(holdings: Holdings, manifest: checkpoint.Manifest, where: Path) -> list[tuple[Floats, Floats]]:
    """Values and state of every dense group; a parameter that was saved as a kept tensor begins with new state."""
    saved = {block.parameter for piece in manifest.dense for block in piece.blocks}
    by_group = _by_group(holdings)
    trained = [block for blocks in by_group for block in blocks if block.parameter in saved]
    found = dict(
        zip(trained, checkpoint.load_dense(manifest, where, [_block(holdings, one) for one in trained]), strict=True)
    )
    for block in (block for blocks in by_group for block in blocks if block.parameter not in saved):
        form = _block(holdings, block)
        values = checkpoint.kept_values(manifest, where, block.parameter)
        if values is None or len(values) != form.size:
            raise CheckpointError(
                f"{where} has no {block.parameter!r} of {form.size} elements; load it into the model it is from"
            )
        state = _native_rule(holdings, block).start(len(form))
        (found[block],) = checkpoint.split_buffer([form], values[block.begin : block.end], state)
    return [checkpoint.join_buffer([found[block] for block in blocks]) for blocks in by_group]


def groups_of(place: Placed, found: Sequence[checkpoint.BlockData]) -> list[tuple[Floats, Floats]]:
    """Values and state of each dense group of a server, made of blocks of other servers that cover them."""
    return [
        checkpoint.join_buffer(checkpoint.recut(found, [_block(place, block) for block in blocks]))
        for blocks in _by_group(place)
    ]


def _passing(holdings: Holdings) -> dict[str, NDArray[Any]]:
    """The present bits of kept tensors that a checkpoint may lack."""
    own = holdings.job.kept_on(holdings.server)
    return {spec.name: bits for spec, bits in zip(own, holdings.kept, strict=False) if spec.passing}


def _kept(holdings: Placed) -> list[tuple[str, checkpoint.Form]]:
    """Name and form of each tensor that this server keeps."""
    return [(spec.name, checkpoint.Form(spec.dtype, spec.shape)) for spec in holdings.job.kept_on(holdings.server)]


def _is_folder(path: Path) -> bool:
    """Whether this is a folder; False also for names that no folder can have, with a NUL or too long."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _rule(holdings: Placed, name: str) -> str:
    return "sum" if holdings.job.mode == "geo" else name


def _by_group(holdings: Placed) -> list[list[DenseBlock]]:
    """This server's blocks, group after group."""
    dense = holdings.job.dense
    return [
        [block for block in dense.blocks if block.server == holdings.server and block.group == group]
        for group in range(len(dense.groups))
    ]


def _block(holdings: Placed, block: DenseBlock) -> checkpoint.BlockForm:
    dense = holdings.job.dense
    rule = _rule(holdings, dense.groups[block.group].name)
    arrays, scalars = checkpoint.state_form(_native_rule(holdings, block).state_width)
    size = prod(dict(dense.shapes)[block.parameter])
    return checkpoint.BlockForm(block.parameter, block.begin, block.end, size, rule, arrays, scalars)


def _native_rule(holdings: Placed, block: DenseBlock) -> _native.Rule:
    spec = holdings.job.dense.groups[block.group]
    rule = _rule(holdings, spec.name)
    return _native.Rule(rule, {} if rule != spec.name else dict(spec.args))


def blocks_of(place: Placed, groups: Sequence[tuple[Floats, Floats]]) -> Sequence[checkpoint.BlockData]:
    """The dense blocks of a server, given values and state of each of its groups."""
    found: list[checkpoint.BlockData] = []
    for blocks, (values, state) in zip(_by_group(place), groups, strict=True):
        found += checkpoint.split_buffer([_block(place, block) for block in blocks], values, state)
    return found
