"""The values of a model in a folder, whoever wrote it: an inference copy, a checkpoint, or one of a collective run."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fleet.checkpoint import InferenceIndex, Manifest, StepFolders, TrainingManifest, Unseen, find
from fleet.checkpoint.files.fields import parse_json
from fleet.checkpoint.folders.folder import read_contents, strangers_in
from fleet.checkpoint.folders.inference import read_inference
from fleet.checkpoint.state.whole import read_dense_values, read_kept, read_rows
from fleet.errors import CheckpointError
from fleet.ps.held.unseen import unseen_of
from fleet.ps.job.spec import JobSpec
from fleet.runtime.training.reading import CheckpointSource, LazyTensors
from fleet.runtime.training.write_share import from_bits

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
    manifest = read_contents(where, Manifest)
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
        name: SavedTable(pieces[0].form.width, unseen.get(name, Unseen()), partial(read_rows, manifest, where, name))
        for name, pieces in manifest.tables.items()
    }
    return SavedModel(where, tensors, tables)


def _of_run(where: Path) -> SavedModel:
    manifest = read_contents(where, TrainingManifest)
    source = CheckpointSource(where, manifest)
    source.check_files(0, 1)
    keys = {key.removeprefix("model/"): key for key in manifest.forms if key.startswith("model/")}
    return SavedModel(where, LazyTensors(source, keys))
