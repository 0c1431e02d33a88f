"""Runs an exported program beside a served model: rows, layers and buffers of one moment."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fleet.errors import CheckpointError, UsageError
from fleet_serve.predict.exporting import read_program
from fleet_serve.predict.operator import rows_from
from fleet_serve.rows.model import ServedModel, ServedVersion

Array = npt.NDArray[Any]


class Predictor:
    """A program; one prediction at a time, on as many threads as torch takes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        program, about = read_program(path)
        self.inputs: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
            name: (np.dtype(one["dtype"]), tuple(one["shape"])) for name, one in about["inputs"].items()
        }
        """What it takes: dtype, and the shape of one sample."""
        self._tables: dict[str, int] = dict(about["tables"])
        """The tables it looks up, and their widths."""
        self._module = program.module()
        self._state: dict[str, torch.Tensor] = {
            name: value for name, value in self._module.state_dict().items() if not _is_of_rows(name, value)
        }
        self._lock = threading.Lock()
        self._has: tuple[int, int] | None = None
        """The model whose layers it has now, and which change of them."""

    def check(self, model: ServedModel) -> None:
        """CheckpointError unless the model has all tables and values that the program needs."""
        for name, width in self._tables.items():
            table = model.tables.get(name)
            if table is None or table.width != width:
                has = "is not there" if table is None else f"has width {table.width}"
                raise CheckpointError(
                    f"table {name!r} {has} in {model.name}, and {self._path} needs width {width}; export the same model"
                )
        for name, value in self._state.items():
            found = model.dense.get(name)
            if found is None:
                raise CheckpointError(
                    f"{model.name} has no {name!r}, which {self._path} needs; export the same "
                    "model, and serve a folder of fleet.save_inference_model()"
                )
            if tuple(found.shape) != tuple(value.shape):
                raise CheckpointError(
                    f"{name!r} has shape {list(found.shape)} in {model.name} and {list(value.shape)} in {self._path}; "
                    "export the same model"
                )

    def predict(self, model: ServedModel, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], ServedVersion]:
        """What the program makes of a batch, all of one moment of the model, and of which; UsageError if it cannot."""
        given = self._tensors(inputs)

        def rows(ids: torch.Tensor, table: str) -> torch.Tensor:
            (found,), _ = model.lookup([(table, ids.numpy())])
            return torch.from_numpy(found.rows)

        with self._lock, model.moment, torch.no_grad(), rows_from(rows):
            self._take_layers(model)
            version = model.version
            found = self._module(**given)
        return _named(found), version

    def _tensors(self, inputs: Mapping[str, Array]) -> dict[str, torch.Tensor]:
        if set(inputs) != set(self.inputs):
            wants = ", ".join(f"{name!r} {kind}[n, ...{list(shape)}]" for name, (kind, shape) in self.inputs.items())
            raise UsageError(f"the program takes {wants}, got {', '.join(map(repr, inputs)) or 'nothing'}; send those")
        for name, (kind, shape) in self.inputs.items():
            one = inputs[name]
            if one.dtype != kind or not one.ndim or one.shape[1:] != shape or not len(one):
                found = f"{one.dtype}{list(one.shape)}"
                raise UsageError(
                    f"input {name!r} must be {kind} with samples of shape {list(shape)}, got {found}; mend it"
                )
        if len({len(one) for one in inputs.values()}) > 1:
            raise UsageError("the inputs must have one number of samples; send the same for each")
        return {name: torch.from_numpy(np.array(inputs[name])) for name in self.inputs}

    def _take_layers(self, model: ServedModel) -> None:
        if self._has == (has := (model.serial, model.num_dense)):
            return
        for name, value in self._state.items():
            value.copy_(torch.from_numpy(model.dense[name]))
        self._has = has


def _is_of_rows(name: str, value: torch.Tensor) -> bool:
    """Whether it is one of the empty tensors that stand for rows."""
    return name.rpartition(".")[2] in ("weight", "keys") and value.shape[:1] == (0,)


def _named(found: Any) -> dict[str, Array]:
    """The tensors that a model gives, by name or by their place."""
    if isinstance(found, torch.Tensor):
        found = [found]
    named = found.items() if isinstance(found, dict) else enumerate(found)
    return {str(name): one.contiguous().numpy() for name, one in named}
