"""`fleet.load_inference_model`: a saved model's values in the user's own module, in a process without a job."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from fleet.checkpoint import Unseen
from fleet.errors import CheckpointError, UsageTypeError
from fleet.nn.holder import Rows, without_rows
from fleet.nn.sparse import SparseModule
from fleet.ps.held.unseen import unseen_of
from fleet.runtime.saved_model import Folder, SavedModel, open_saved

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
