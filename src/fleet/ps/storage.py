"""A server's part of a checkpoint or an inference copy, written into a folder that all servers share, and read back."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple

from fleet import _native, checkpoint
from fleet.errors import CheckpointError
from fleet.ps.holdings import Holdings
from fleet.ps.spec import DenseBlock
from fleet.ps.unseen import unseen_of


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
            checkpoint.export_table(
                table, spec.name, path, server, job.num_servers, dtype=spec.dtype, unseen=unseen_of(spec)
            )
            for spec, table in zip(job.tables, holdings.tables, strict=True)
        )
    pieces: list[checkpoint.Piece] = []
    for spec, table in zip(job.tables, holdings.tables, strict=True):
        pieces += checkpoint.save_table(
            table, spec.name, path, server, job.num_servers, dtype=spec.dtype, rule=_rule(holdings, spec.rule.name)
        )
    pieces += checkpoint.save_dense(path, server, job.num_servers, _blocks_with_data(holdings))
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
    wanted = [_block(holdings, block) for blocks in _by_group(holdings) for block in blocks]
    dense = iter(checkpoint.load_dense(manifest, where, wanted))  # before anything is replaced
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
        )
    holdings.restore([checkpoint.join_buffer([next(dense) for _ in blocks]) for blocks in _by_group(holdings)])
    return Loaded(rows, manifest.version)


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
    spec = dense.groups[block.group]
    rule = _rule(holdings, spec.name)
    arrays, scalars = checkpoint.state_form(
        _native.Rule(rule, {} if rule != spec.name else dict(spec.args)).state_width
    )
    size = prod(dict(dense.shapes)[block.parameter])
    return checkpoint.BlockForm(block.parameter, block.begin, block.end, size, rule, arrays, scalars)


def _blocks_with_data(holdings: Holdings) -> Sequence[checkpoint.BlockData]:
    found: list[checkpoint.BlockData] = []
    for blocks, (values, state) in zip(_by_group(holdings), holdings.snapshot(), strict=True):
        found += checkpoint.split_buffer([_block(holdings, block) for block in blocks], values, state)
    return found
