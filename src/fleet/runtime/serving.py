"""`fleet.load_inference_model`: values of a folder, whoever wrote it, in the user's own module, without a job."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.parameter import is_lazy

from fleet.checkpoint import InferenceIndex, Manifest, StepFolders, TrainingManifest, Unseen, find, read_chain
from fleet.checkpoint.files.fields import parse_json
from fleet.checkpoint.folders.folder import read_contents, strangers_in
from fleet.checkpoint.folders.inference import read_inference
from fleet.checkpoint.state.whole import read_dense_values, read_kept, read_rows
from fleet.errors import CheckpointError, UsageTypeError
from fleet.nn.holder import Rows, without_rows
from fleet.nn.sparse import SparseModule
from fleet.ps.held.unseen import unseen_of
from fleet.ps.job.spec import JobSpec
from fleet.runtime.training.elements import CheckpointSource, LazyTensors, from_bits

Folder = str | os.PathLike[str]


@dataclass(frozen=True)
class SavedTable:
    """The rows of a table: keys in ascending order, and float32 values."""

    width: int
    unseen: Unseen
    read: Callable[[], tuple[NDArray[np.int64], NDArray[np.float32]]]


@dataclass(frozen=True)
class SavedModel:
    """All that a folder has of a model."""

    where: Path
    tensors: Mapping[str, torch.Tensor]
    """What is no row, by its name in the model."""
    tables: Mapping[str, SavedTable] = field(default_factory=dict)


def open_saved(folder: Folder) -> SavedModel:
    """What a folder has of a model; CheckpointError in one line where it has none, with the right call or folder."""
    if (copy := _found(folder, InferenceIndex)) is not None:
        return _of_copy(copy)
    where = _found(folder, Manifest)
    if where is None:
        raise CheckpointError(_why_not(Path(folder)))
    if _format(where) == TrainingManifest.FORMAT:
        return _of_run(where)
    return _of_checkpoint(where)


def _found(folder: Folder, kind: type[InferenceIndex] | type[Manifest]) -> Path | None:
    try:
        return find(folder, kind)
    except CheckpointError:
        return None


def _format(where: Path) -> object:
    path = where / Manifest.FILE
    return parse_json(path.read_bytes(), str(path)).value.get("format")


def _why_not(folder: Path) -> str:
    if (folder / "__model__").exists():
        return f"{folder} has the inference model of a program; load it with fleet_programs.load_inference_model()"
    if not folder.exists():
        return f"no inference copy or checkpoint in {folder}: there is no such folder"
    if steps := StepFolders(folder).complete():
        return f"{folder} has the checkpoints of a run; name one of them, such as {StepFolders(folder).path(steps[0])}"
    if folder.is_dir() and (strangers := strangers_in(folder)) is not None:
        return f"no inference copy or checkpoint in {folder}: {strangers}"
    if not folder.is_dir():
        return f"no inference copy or checkpoint in {folder}: it is a file; give the folder that was saved"
    return f"no inference copy or checkpoint in {folder}; write one with fleet.save_inference_model()"


def _of_copy(where: Path) -> SavedModel:
    index = read_contents(where, InferenceIndex)
    read = read_inference(where)
    tables = {
        part.table: SavedTable(part.width, part.unseen, partial(read.tables.__getitem__, part.table))
        for part in index.tables
    }
    return SavedModel(where, {name: torch.from_numpy(values) for name, values in read.dense.items()}, tables)


def _of_checkpoint(where: Path) -> SavedModel:
    chain = read_chain(where)
    where, manifest = chain[-1]
    job = JobSpec.from_json(json.dumps(manifest.job))
    shapes = dict(job.dense.shapes)
    tensors = {
        name: torch.from_numpy(values).view(shapes.get(name, values.shape))
        for name, values in read_dense_values(manifest, where).items()
    }
    tensors |= {
        name: from_bits(bits.reshape(-1), form).view(form.shape)
        for name, (form, bits) in read_kept(manifest, where).items()
    }
    unseen = {spec.name: unseen_of(spec) for spec in job.tables}
    tables = {
        name: SavedTable(pieces[0].form.width, unseen.get(name, Unseen()), partial(read_rows, chain, name))
        for name, pieces in chain[0].manifest.tables.items()
    }
    return SavedModel(where, tensors, tables)


def _of_run(where: Path) -> SavedModel:
    manifest = read_contents(where, TrainingManifest)
    source = CheckpointSource(where, manifest)
    source.check_files(0, 1)
    keys = {key.removeprefix("model/"): key for key in manifest.forms if key.startswith("model/")}
    return SavedModel(where, LazyTensors(source, keys))


Model = TypeVar("Model", bound=nn.Module)

log = logging.getLogger(__name__)


def load_inference_model(folder: Folder, model: Model) -> Model:
    """Give the model all values of a folder, rows of its tables too; returns it, set to evaluation without gradients.

    The folder is one of `fleet.save_inference_model`, of `fleet.save_persistables`, or a step of `fleet.Checkpoint`. No
    job and no `fleet.init()` is needed: the model looks up its rows itself, on its device, and can be called, copied,
    saved, compiled and exported like any other. CheckpointError if the folder lacks anything that the model has, or
    has it in another shape; then nothing of the model has changed.

        model = fleet.load_inference_model("model", Clicks())
        scores = model(ids)
    """
    if not isinstance(model, nn.Module):
        raise UsageTypeError(
            f"fleet.load_inference_model(folder, model) takes a torch.nn.Module, got {type(model).__name__}; the model "
            "of a program is loaded by fleet_programs.load_inference_model(folder, executor)"
        )
    sparse = {name: module for name, module in model.named_modules() if isinstance(module, SparseModule)}
    for module in sparse.values():
        module.refuse_if_bound()
    saved = open_saved(folder)
    state = _dense_state(model, sparse)
    values, passing = _dense_values(saved, state), _passing_buffers(saved, model, state)
    known: dict[str, Rows] = {}
    rows = {name: _rows(saved, name, module, known) for name, module in sparse.items()}
    model.load_state_dict(values, strict=False)
    for buffer, value in passing:
        buffer.copy_(value)
    for name, tables in rows.items():
        sparse[name].hold(tables, name)
    _tell_of_others(saved, model, sparse)
    return model.eval().requires_grad_(False)


def _dense_state(model: nn.Module, sparse: Mapping[str, SparseModule]) -> dict[str, torch.Tensor]:
    """All that the model's state_dict has, but rows."""
    with without_rows():
        state: dict[str, torch.Tensor] = dict(model.state_dict(keep_vars=True))
    for name, module in sparse.items():
        prefix = f"{name}." if name else ""
        for home in ("", *module.home_names()):
            for own in ("weight", "keys"):
                state.pop(f"{prefix}{home}.{own}" if home else f"{prefix}{own}", None)
    return state


def _dense_values(saved: SavedModel, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A saved tensor for each name; one that is tied may have been saved under another of its names."""
    there = set(saved.tensors)
    home = {id(tensor): name for name, tensor in state.items() if name in there}
    values = {}
    for name, tensor in state.items():
        source = name if name in there else home.get(id(tensor))
        if source is None:
            raise CheckpointError(
                f"{saved.where} has no {name!r}, which this model has; load it into the model it is of"
            )
        values[name] = value = saved.tensors[source]
        if not is_lazy(tensor) and value.shape != tensor.shape:
            raise CheckpointError(
                f"{name!r} has shape {list(tensor.shape)} in this model and {list(value.shape)} in {saved.where}; make "
                "the model as it was when it was saved"
            )
    return values


def _passing_buffers(
    saved: SavedModel, model: nn.Module, state: Mapping[str, torch.Tensor]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Buffers that no state_dict has, each with what a job has saved of it; those of another shape stay."""
    return [
        (buffer, saved.tensors[name])
        for name, buffer in model.named_buffers()
        if name not in state and name in saved.tensors and saved.tensors[name].shape == buffer.shape
    ]


def _rows(saved: SavedModel, name: str, module: SparseModule, known: dict[str, Rows]) -> list[Rows]:
    """The rows of a module's tables, on its device; those that another module has are shared with it."""
    found = []
    for spec in module.specs(name):
        table = saved.tables.get(spec.name)
        if table is None:
            there = ", ".join(map(repr, saved.tables)) or "none"
            raise CheckpointError(
                f"{saved.where} has no table {spec.name!r}, which this model has; its tables: {there}"
            )
        if table.width != spec.width:
            raise CheckpointError(
                f"table {spec.name!r} has width {spec.width} in this model and {table.width} in {saved.where}; make "
                "the model as it was when it was saved"
            )
        if (here := _reading(unseen_of(spec))) != (there := _reading(table.unseen)):
            raise CheckpointError(
                f"ids without a row read as {here} in table {spec.name!r} of this model and as {there} in "
                f"{saved.where}; declare the table as it was when it was saved"
            )
        if spec.name not in known:
            keys, values = map(torch.from_numpy, table.read())
            like = module.weight
            values = nn.Parameter(values.to(like.device, like.dtype), requires_grad=False)
            known[spec.name] = Rows(keys.to(like.device), values)
        found.append(known[spec.name])
    return found


def _reading(unseen: Unseen) -> str:
    if unseen.reads == "zeros":
        return "zeros"
    args = ", ".join(f"{name}={value:g}" for name, value in sorted(unseen.args.items()))
    norm = "" if unseen.max_norm is None else f", max_norm {unseen.max_norm:g}"
    return f"{unseen.dtype} first values of {unseen.initializer}({args}), seed {unseen.seed}{norm}"


def _tell_of_others(saved: SavedModel, model: nn.Module, sparse: Mapping[str, SparseModule]) -> None:
    has = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    has |= {name for name, _ in model.named_buffers(remove_duplicate=False)}
    tables = {spec.name for name, module in sparse.items() for spec in module.specs(name)}
    others = [name for name in saved.tensors if name not in has]
    others += [name for name in saved.tables if name not in tables]
    if others:
        log.warning("%s has %s, which this model does not have", saved.where, ", ".join(map(repr, others)))
