"""A model as a program for `fleet-serve`: torch's export of it, without rows, and what its inputs are called.

from fleet_serve.predict.exporting import export_for_serving

export_for_serving(Clicks(), {"ids": torch.zeros(2, 2, dtype=torch.int64)}, "clicks.pt2")
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from fleet.errors import UsageError, UsageTypeError
from fleet.nn.holder import First, Rows
from fleet.nn.sparse import SparseModule
from fleet_serve.predict.operator import served_rows

ABOUT = "fleet-serve.json"
"""The part of the file that says what the program takes."""
FORMAT = "fleet-serve program 2"


class _ServedFirst(First):
    """Has every id read as what serves: the module holds no rows itself."""

    def rows(self, ids: torch.Tensor, width: int) -> torch.Tensor:
        found: torch.Tensor = served_rows(ids, self.table, width)
        return found


def export_for_serving(model: nn.Module, example: Mapping[str, torch.Tensor], path: str | os.PathLike[str]) -> None:
    """Write what `fleet-serve --predict` runs: the model's forward, for batches of any size, in evaluation.

    `model` is one of the class that is trained, made afresh; it is of no use afterwards. `example` has a tensor for
    each argument of its forward, with two samples or more; the first dimension of each is the batch. Values are not
    in the file: rows, layers and buffers are those of what is served.
    """
    if not isinstance(model, nn.Module):
        raise UsageTypeError(f"export_for_serving takes a torch.nn.Module, got {type(model).__name__}")
    wanted = [name for name in inspect.signature(model.forward).parameters if name in example]
    odd = [name for name, one in example.items() if name not in wanted or not isinstance(one, torch.Tensor)]
    if odd or any(one.dim() < 1 or one.shape[0] < 2 for one in example.values()):
        raise UsageError(
            f"example must have a tensor of two samples or more for arguments of {type(model).__name__}.forward, got "
            f"{ {name: list(getattr(one, 'shape', [])) for name, one in example.items()} }; give those"
        )
    tables: dict[str, int] = {}
    for name, module in model.named_modules():
        if isinstance(module, SparseModule):
            specs = module.specs(name)
            tables |= {spec.name: spec.width for spec in specs}
            none = [Rows(torch.empty(0, dtype=torch.int64), torch.empty(0, spec.width)) for spec in specs]
            module.hold(none, name, [_ServedFirst(spec.name) for spec in specs])
    model.eval()
    inputs = {name: example[name] for name in wanted}
    with torch.no_grad():
        model(**inputs)  # layers that wait for a shape get theirs
        model.requires_grad_(False)
        shapes = {name: {0: torch.export.Dim.DYNAMIC} for name in inputs}
        program = torch.export.export(model, (), inputs, dynamic_shapes=shapes)
    about = {
        "format": FORMAT,
        "tables": tables,
        "inputs": {
            name: {"dtype": str(one.dtype).removeprefix("torch."), "shape": list(one.shape[1:])}
            for name, one in inputs.items()
        },
    }
    torch.export.save(program, os.fspath(path), extra_files={ABOUT: json.dumps(about)})


def read_program(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """The program, and what was said about its inputs; UsageError where the file is none of these."""
    extra = {ABOUT: ""}
    try:
        program = torch.export.load(os.fspath(path), extra_files=extra)
        about: dict[str, Any] = json.loads(extra[ABOUT])
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']!r}")
    except Exception as error:  # torch says what is wrong in many ways
        why = " ".join(str(error).split())[:200]
        raise UsageError(f"--predict {path} is no program of export_for_serving ({why}); write it again") from None
    return program, about
