"""A server's part of a checkpoint or an inference copy, written into a folder that all servers share, and read back."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple

from fleet import _native, checkpoint
from fleet.errors import CheckpointError
from fleet.ps.holdings import Holdings
from fleet.ps.spec import DenseBlock

_log = logging.getLogger(__name__)


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
    began_at = time.monotonic()
    account = _export(holdings, path) if values_only else _write(holdings, path)
    what, rows = "values" if values_only else "values and state", sum(map(len, holdings.tables))
    _log.info("saved %s of %d rows to %s in %.1f s", what, rows, path, time.monotonic() - began_at)
    return account


def _export(holdings: Holdings, path: Path) -> str:
    job, server = holdings.job, holdings.server
    return checkpoint.parts_to_text(
        checkpoint.export_table(table, spec.name, path, server, job.num_servers, dtype=spec.dtype)
        for spec, table in zip(job.tables, holdings.tables, strict=True)
    )


def _write(holdings: Holdings, path: Path) -> str:
    job, server = holdings.job, holdings.server
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
    began_at = time.monotonic()
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
    took_s = time.monotonic() - began_at
    _log.info("loaded %d rows of step %d from %s in %.1f s", rows, manifest.version, where, took_s)
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
