"""`fleet.gather_state_dict`: a plain state_dict with everything in it, rows of tables too, where it fits in memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from fleet import checkpoint
from fleet.checkpoint.folders.inference import read_table
from fleet.errors import CheckpointError, UsageError
from fleet.nn.holder import without_rows
from fleet.nn.sparse import SparseModule
from fleet.runtime.saved.saving import stats
from fleet.runtime.saved.server_writes import write_one_moment

if TYPE_CHECKING:
    from fleet.ps.worker.worker import Worker

Folder = str | os.PathLike[str]

MAX_BYTES = 8 << 30


def rows_elsewhere(model: nn.Module) -> dict[str, SparseModule]:
    """The modules that do not have their rows themselves, by name."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, SparseModule) and not module.is_held
    }


def gather_state_dict(
    model: nn.Module, worker: Worker | None, folder: Folder | None = None, max_bytes: int = MAX_BYTES
) -> dict[str, Any]:
    """Copies of all values in host memory: of the servers where they have them, else of this worker."""
    served = rows_elsewhere(model)
    if worker is not None:
        for name, module in served.items():
            if module.worker is not worker:
                raise UsageError(f"{name!r} is not of the model that was given to fleet.distributed_model()")
        worker.policy.flush()
        worker.policy.refresh()
    with without_rows():
        state: dict[str, Any] = model.state_dict(keep_vars=True)
    copies: dict[int, torch.Tensor] = {}
    for name, value in state.items():
        if isinstance(value, torch.Tensor):  # tied ones stay tied
            state[name] = copies.setdefault(id(value), value.detach().cpu().clone())
    if worker is not None and served:
        tables = _pulled(worker, folder, max_bytes)
        for name, module in served.items():
            prefix = f"{name}." if name else ""
            for home, table in zip(module.home_names(), module.tables, strict=True):
                where = f"{prefix}{home}." if home else prefix
                state[f"{where}keys"], state[f"{where}weight"] = tables[worker.client.job.tables[table].name]
    return state


def _pulled(worker: Worker, folder: Folder | None, max_bytes: int) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Keys and values of every table: servers write them to a folder of a moment, and they are read from there."""
    _refuse_too_large(worker, max_bytes)
    with tempfile.TemporaryDirectory(prefix="fleet-gather-", dir=folder) as made:
        where = Path(made)
        try:
            parts = write_one_moment(worker.client, where, values_only=True).read(checkpoint.parts_from_text)
            return {spec.name: _table(where, parts, spec.name) for spec in worker.client.job.tables}
        except CheckpointError as error:
            raise CheckpointError(
                f"fleet.gather_state_dict: {error} (rows travel by way of {where.parent}; give folder= another one "
                "that workers and servers share)"
            ) from error


def _table(where: Path, parts: Sequence[checkpoint.TablePart], name: str) -> tuple[torch.Tensor, torch.Tensor]:
    keys, values = read_table(where, [part for part in parts if part.table == name])
    return torch.from_numpy(keys), torch.from_numpy(values)


def _refuse_too_large(worker: Worker, max_bytes: int) -> None:
    widths = {spec.name: spec.width for spec in worker.client.job.tables}
    rows = {name: sum(server["tables"][name]["rows"] for server in stats(worker)) for name in widths}
    size = sum(count * (8 + 4 * widths[name]) for name, count in rows.items())
    if size > max_bytes:
        listed = ", ".join(f"{name!r} {count} rows" for name, count in rows.items())
        raise UsageError(
            f"fleet.gather_state_dict: the tables take {size} bytes ({listed}), more than max_bytes = {max_bytes}; "
            "save them where they are with fleet.save_persistables(), or allow as much"
        )
