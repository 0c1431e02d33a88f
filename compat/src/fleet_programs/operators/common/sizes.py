"""Shapes that a batch decides: an attribute `shape` whose -1 are numbers of other variables. No operators.

The slot `Sizes` holds those variables; their elements, one after the other, stand where the attribute has -1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from fleet.errors import UsageError
from fleet_programs.definition.dtypes import INTEGERS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer
from fleet_programs.operators.common.making import product


def infer_sizes(infer: Infer) -> list[int]:
    """The attribute `shape`; an error unless there is a number for each -1 in it, and for nothing else."""
    shape = [int(size) for size in infer.attr("shape")]
    infer.require_dtype("Sizes", INTEGERS)
    counts = [product(var.shape) for var in infer.vars("Sizes")]
    if -1 in counts or sum(counts) != shape.count(-1):
        raise infer.fail(
            f"shape {shape} must be known but for {sum(counts)} sizes that are given as variables; use layers.shape(x)"
            "[0] or fill_constant_batch_size_like() for the size of a batch"
        )
    return shape


def sizes_of(op: Operator) -> Callable[[Sequence[torch.Tensor]], list[int]]:
    """What makes the whole shape of the tensors of the slot `Sizes`."""
    shape = [int(size) for size in op.attr("shape")]
    if -1 not in shape:
        return lambda given: shape  # noqa: ARG005

    def whole(given: Sequence[torch.Tensor]) -> list[int]:
        found = [number for one in given for number in one.reshape(-1).tolist()]
        if any(number < 0 for number in found):
            raise UsageError(f"{op.type}: sizes must be >= 0, got {found}")
        numbers = iter(found)
        return [next(numbers) if size == -1 else size for size in shape]

    return whole
