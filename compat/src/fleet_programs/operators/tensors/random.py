"""Random first values: those of a table's rows, so that a parameter is the same in one process and on servers."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import torch

from fleet import _native
from fleet_programs.definition.dtypes import FLOATS, torch_dtype
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering

_BASE = {"shape": [1], "dtype": "float32", "seed": 0, "source": "", "first_row": 0}
"""`source` and `first_row` say, for a block of a parameter, of which one and from which row on."""


def _infer(infer: Infer) -> None:
    if infer.attr("dtype") not in FLOATS:
        raise infer.fail(f"dtype must be a float, got {infer.attr('dtype')}")
    infer.set("Out", infer.attr("shape"), infer.attr("dtype"))


def _filler(op: Operator, lowering: Lowering, name: str, args: dict[str, float]) -> Callable[[], torch.Tensor]:
    shape = list(op.attr("shape"))
    rows, width = (shape[0], prod(shape[1:])) if shape else (1, 1)
    source = op.attr("source") or op.output("Out")[0]
    seed = op.attr("seed") or lowering.program.random_seed
    dtype = torch_dtype(op.attr("dtype"))

    def fill() -> torch.Tensor:
        keys = np.arange(op.attr("first_row"), op.attr("first_row") + rows, dtype=np.int64)
        values = torch.from_numpy(_native.initialize(name, args, seed, source, keys, width))
        return values.view(shape).to(lowering.device, dtype)

    return fill


@register("uniform_random", attrs={**_BASE, "min": -1.0, "max": 1.0}, infer=_infer)
def _uniform(op: Operator, lowering: Lowering) -> Kernel:
    return _filler(op, lowering, "uniform", {"low": op.attr("min"), "high": op.attr("max")})


@register("gaussian_random", attrs={**_BASE, "mean": 0.0, "std": 1.0}, infer=_infer)
def _gaussian(op: Operator, lowering: Lowering) -> Kernel:
    return _filler(op, lowering, "normal", {"mean": op.attr("mean"), "std": op.attr("std")})


@register("truncated_gaussian_random", attrs={**_BASE, "mean": 0.0, "std": 1.0}, infer=_infer)
def _truncated(op: Operator, lowering: Lowering) -> Kernel:
    return _filler(op, lowering, "truncated_normal", {"mean": op.attr("mean"), "std": op.attr("std")})
