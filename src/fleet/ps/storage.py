"""A server's part of a checkpoint or an inference copy, written into a folder that all servers share, and read back."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleet import _native, checkpoint
from fleet.errors import CheckpointError
from fleet.ps.holdings import Holdings
from fleet.ps.spec import DenseBlock

Floats = NDArray[np.float32]


class Loaded(NamedTuple):
    """What a server took from a checkpoint."""

    rows: int
    version: int


def checked_folder(folder: str | Path) -> Path:
    """A folder that holds a checkpoint; CheckpointError that says what is wrong with it otherwise."""
    return checkpoint.find(folder)


def save(holdings: Holdings, folder: str, *, values_only: bool) -> str:
    """Write this server's files into `folder`; returns an account of them as JSON. Tables are locked shard by shard."""
    path = Path(folder)
    if not _is_folder(path):
        raise CheckpointError(
            f"server {holdings.server} does not see the folder {folder!r}; servers and workers must share a file system"
        )
    job, server = holdings.job, holdings.server
    if values_only:
        return checkpoint.parts_to_text(
            checkpoint.export_table(table, spec.name, path, server, job.num_servers, dtype=spec.dtype)
            for spec, table in zip(job.tables, holdings.tables, strict=True)
        )
    pieces: list[checkpoint.Piece] = []
    for spec, table in zip(job.tables, holdings.tables, strict=True):
        pieces += checkpoint.save_table(
            table, spec.name, path, server, job.num_servers, dtype=spec.dtype, rule=_rule(holdings, spec.rule.name)
        )
    pieces += checkpoint.save_dense(path, server, job.num_servers, _blocks_with_data(holdings))
    kept = [(*form, bits) for form, bits in zip(_kept(holdings), holdings.kept, strict=True)]
    pieces += checkpoint.save_kept(path, server, job.num_servers, kept)
    return checkpoint.pieces_to_text(pieces)


def load(holdings: Holdings, folder: Path) -> Loaded:
    """Replace everything by this server's part of a checkpoint, which any number of servers may have written."""
    if not _is_folder(folder):
        raise CheckpointError(
            f"server {holdings.server} does not see the folder {str(folder)!r}; servers and workers must share a file "
            "system"
        )
    where = checkpoint.find(folder)
    manifest = checkpoint.read_manifest(where)
    job, server = holdings.job, holdings.server
    dense = _load_dense(holdings, manifest, where)  # before anything is replaced
    kept = checkpoint.load_kept(manifest, where, _kept(holdings))
    rows = 0
    for spec, table in zip(job.tables, holdings.tables, strict=True):
        rows += checkpoint.load_table(
            table,
            manifest,
            where,
            spec.name,
            server,
            job.num_servers,
            dtype=spec.dtype,
            rule=_rule(holdings, spec.rule.name),
            values_only=holdings.job.mode != "geo" and spec.rule.name == "sum",
        )
    holdings.restore(dense, kept)
    return Loaded(rows, manifest.version)


def _load_dense(holdings: Holdings, manifest: checkpoint.Manifest, where: Path) -> list[tuple[Floats, Floats]]:
    """Values and state of every dense group; a parameter that was only kept when it was saved begins a new state."""
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


def _kept(holdings: Holdings) -> list[tuple[str, checkpoint.Form]]:
    """Name and form of each tensor that this server keeps."""
    return [(spec.name, checkpoint.Form(spec.dtype, spec.shape)) for spec in holdings.job.kept_on(holdings.server)]


def _is_folder(path: Path) -> bool:
    """Also for names that no folder can have: a NUL in it, or too long."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _rule(holdings: Holdings, name: str) -> str:
    return "sum" if holdings.job.mode == "geo" else name


def _by_group(holdings: Holdings) -> list[list[DenseBlock]]:
    """This server's blocks, group after group."""
    dense = holdings.job.dense
    return [
        [block for block in dense.blocks if block.server == holdings.server and block.group == group]
        for group in range(len(dense.groups))
    ]


def _block(holdings: Holdings, block: DenseBlock) -> checkpoint.BlockForm:
    dense = holdings.job.dense
    rule = _rule(holdings, dense.groups[block.group].name)
    arrays, scalars = checkpoint.state_form(_native_rule(holdings, block).state_width)
    size = prod(dict(dense.shapes)[block.parameter])
    return checkpoint.BlockForm(block.parameter, block.begin, block.end, size, rule, arrays, scalars)


def _native_rule(holdings: Holdings, block: DenseBlock) -> _native.Rule:
    spec = holdings.job.dense.groups[block.group]
    rule = _rule(holdings, spec.name)
    return _native.Rule(rule, {} if rule != spec.name else dict(spec.args))


def _blocks_with_data(holdings: Holdings) -> Sequence[checkpoint.BlockData]:
    found: list[checkpoint.BlockData] = []
    for blocks, (values, state) in zip(_by_group(holdings), holdings.snapshot(), strict=True):
        found += checkpoint.split_buffer([_block(holdings, block) for block in blocks], values, state)
    return found
