"""Checkpoints, inference copies and a state_dict of a whole job: each server writes its part, this worker the end."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from fleet import _native, checkpoint
from fleet.checkpoint.folders.inference import read_table
from fleet.errors import CheckpointError, UsageError, UsageTypeError
from fleet.nn.holder import without_rows
from fleet.nn.sparse import SparseModule
from fleet.observe.metrics import events
from fleet.observe.tracing.part import part
from fleet.ps.job.named_spec import RuleSpec
from fleet.ps.proto import ps_pb2
from fleet.runtime.saved.increments import Increment
from fleet.runtime.saved.once_for_all import once_for_all
from fleet.runtime.saved.server_writes import SAVE_TIMEOUT_S, Written, write_one_moment

if TYPE_CHECKING:
    from fleet.collective.world.util import Util
    from fleet.ps.worker.worker import Worker
    from fleet.roles import Identity

Folder = str | PathLike[str]

_log = logging.getLogger(__name__)


@part("checkpoint")
def save(
    worker: Worker,
    folder: Folder,
    beside: Callable[[Path], Sequence[checkpoint.FileInfo]] | None = None,
    *,
    incremental: bool = False,
) -> Path:
    """Write a checkpoint: tables, rule state, counters, dense parameters, all of one moment. Servers write at once.

    `beside` may write files of its own into the folder that it is given, and tells which. `incremental`: rows that have
    not changed since the last save into this folder are left out, where servers know which.
    """
    worker.policy.flush()
    warn_of_lost_state(worker, folder)
    worker.send_kept()
    client, to = worker.client, Path(os.path.realpath(folder))
    with checkpoint.saving(folder) as writing:
        base = to if (to / checkpoint.Manifest.FILE).exists() else None
        increment = Increment(client, to, writing, base) if incremental else None
        written = write_one_moment(client, writing, values_only=False, increment=increment)
        pieces = written.read(checkpoint.pieces_from_text)
        inside = checkpoint.next_increment(to)
        parent = None if increment is None else increment.parent(pieces, inside)
        manifest = checkpoint.Manifest(
            written.version,
            worker.client.num_servers,
            pieces,
            job=json.loads(worker.client.server_set.job.to_json()),
            others=() if beside is None else tuple(beside(writing)),
            steps=written.steps,
            versions=written.versions,
            parent=parent,
        )
        made = checkpoint.commit(writing, to if parent is None else inside, manifest)
    events.note("checkpoint", f"version {written.version}, in {folder}")
    return made


def warn_of_lost_state(worker: Worker, folder: Folder) -> None:
    """Log what a checkpoint of a job in geo mode does not have."""
    if worker.policy.trains_locally and any(_has_state(spec.rule) for spec in worker.client.job.tables):
        _log.warning(
            "geo mode: each worker keeps the optimizer state of its rows; it is not in %s, and begins anew when that "
            "is loaded",
            folder,
        )


def _has_state(rule: RuleSpec) -> bool:
    return _native.Rule(rule.name, dict(rule.args)).state_width(1) > 0


def export(worker: Worker, folder: Folder, schema: Any = None) -> Path:
    """Write an inference copy: values only, as numpy files; rows and dense parameters are of one moment."""
    if schema is not None and not hasattr(schema, "to_plain"):
        raise UsageTypeError(f"fleet.save_inference_model takes a fleet.data.Schema as schema=, got {schema!r:.80}")
    plain = None if schema is None else schema.to_plain()
    worker.policy.flush()
    with checkpoint.saving(folder, checkpoint.InferenceIndex) as writing:
        written = write_one_moment(worker.client, writing, values_only=True)
        index = checkpoint.InferenceIndex(
            written.version,
            worker.client.num_servers,
            written.read(checkpoint.parts_from_text),
            tuple(checkpoint.export_dense(writing, _dense_values(worker, written))),
            plain,
            steps=written.steps,
            versions=written.versions,
        )
        return checkpoint.commit(writing, folder, index)


def load(worker: Worker, folder: Folder) -> int:
    """Replace everything on the servers by a checkpoint; the number of rows loaded.

    Each server reads and compares what it would load before one of them changes anything.
    """
    path = checkpoint.find(folder)
    worker.policy.flush()

    def header(server: int, *, check_only: bool = False) -> ps_pb2.LoadRequest.Header:
        caller = worker.client.caller(server)
        return ps_pb2.LoadRequest.Header(caller=caller, folder=str(path.absolute()), check_only=check_only)

    worker.client.ask("Load", partial(header, check_only=True), timeout_s=SAVE_TIMEOUT_S)
    replies = worker.client.changes.make("Load", header, timeout_s=SAVE_TIMEOUT_S)
    worker.restart_at(replies[0].version)
    return sum(reply.rows for reply in replies)


def load_together(worker: Worker, folder: Folder, who: Identity, util: Util) -> int:
    """`load`, called by every worker: worker 0 lets the servers load, the others take over what was loaded."""
    return once_for_all(
        worker,
        "load_model",
        who,
        util,
        lambda: load(worker, folder),
        lambda: worker.restart_at(version_of(worker)),
    )


def shrink(
    worker: Worker,
    table: str | None,
    *,
    unseen_steps: int = 0,
    unseen_s: float = 0.0,
    score_below: float | None = None,
    decay: float = 0.0,
    keys_to: Folder | None = None,
) -> int:
    """Delete rows that nobody needs any more; returns how many."""
    if unseen_s and unseen_steps:
        both = f"got {unseen_steps} and {unseen_s}"
        raise UsageError(f"fleet.shrink: unseen_steps and unseen_s are two ages; give one, {both}")
    if not 0 <= unseen_s < float("inf"):
        raise UsageError(f"fleet.shrink: unseen_s must be a number of seconds >= 0, got {unseen_s!r}")
    progress = worker.progress
    turn = 0 if progress is None else progress.turns.take("shrink")
    if progress is not None and (f"shrink/{turn}" in progress.answers or progress.is_past("shrink", turn)):
        return int(progress.answers.get(f"shrink/{turn}") or 0)
    replies = worker.client.changes.make(
        "Shrink",
        lambda server: ps_pb2.ShrinkRequest.Header(
            caller=worker.client.caller(server),
            table=table or "",
            unseen_steps=unseen_steps,
            unseen_s=unseen_s,
            keys_to="" if keys_to is None else str(Path(keys_to).absolute()),
            score_below=score_below or 0.0,
            use_score=score_below is not None,
            decay=decay,
        ),
        turn=f"shrink/{turn}" if turn else "",
        timeout_s=SAVE_TIMEOUT_S,
    )
    return sum(reply.deleted for reply in replies)


def publish(worker: Worker, url: Folder | None, every_s: float) -> None:
    """Have all servers publish their changes, or no more; each looks whether it can before one of them begins."""
    text = "" if url is None else os.fspath(url)
    if url is not None and "://" not in text:
        text = str(Path(text).absolute())

    def header(server: int, *, check_only: bool = False) -> ps_pb2.PublishRequest.Header:
        caller = worker.client.caller(server)
        return ps_pb2.PublishRequest.Header(caller=caller, url=text, every_s=every_s, check_only=check_only)

    worker.client.ask("Publish", partial(header, check_only=True))
    worker.client.changes.make("Publish", header)


def stats(worker: Worker) -> list[dict[str, Any]]:
    """What each server holds and has done."""
    replies = worker.client.ask("Stats", lambda server: ps_pb2.StatsRequest.Header(caller=worker.client.caller(server)))
    return [json.loads(reply.stats) for reply, _ in replies]


def version_of(worker: Worker) -> int:
    """How many steps (sync) or pushes (otherwise) the servers have applied."""
    return max(int(each["version"]) for each in stats(worker))


def _dense_values(worker: Worker, written: Written) -> dict[str, Any]:
    """Every tensor of the model that is no row, under each of its names."""
    if written.cut is None:
        worker.policy.refresh()
    else:
        answers = worker.client.server_set.answers(
            [(_Version(written.version), one) for one in written.cut.dense], (), dense=True
        )
        worker.policy.take_over([tensors for _, tensors in answers], written.version)
    values = {} if worker.flat is None else dict(worker.flat.parameters())
    values |= {spec.name: tensor for spec, tensor in worker.kept.tensors}
    values |= worker.other_names
    return {name: _array(tensor) for name, tensor in values.items()}


class _Version(NamedTuple):
    version: int


def _array(tensor: torch.Tensor) -> Any:
    """A tensor as an array; what numpy cannot hold, such as bfloat16, as float32."""
    host = tensor.detach().cpu()
    is_known = host.dtype in (torch.float16, torch.float32, torch.float64) or not host.is_floating_point()
    return (host if is_known else host.float()).numpy()


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
