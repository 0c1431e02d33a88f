"""What an operator keeps of the runs of its blocks, and sums of the gradients that are found by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from fleet_programs.kernel.rows import Rows
from fleet_programs.kernel.unset import Unset


class Runs:
    """The runs of one operator in one step: what each kept, in order, and what the operator read and wrote."""

    def __init__(self, inputs: Mapping[str, Any], saved: Sequence[str]) -> None:
        self.inputs = dict(inputs)
        self.outs: dict[str, Any] = {}
        self.turns: list[tuple[int, Sequence[Any]]] = []
        """The number of the block that ran, among the operator's own, and the values of its saved variables."""
        self._saved = {name: place for place, name in enumerate(saved)}

    def places(self, names: Sequence[str]) -> list[int]:
        """Where variables are among what a run kept."""
        return [self._saved[name] for name in names]


def added(total: Any, part: Any) -> Any:
    """The sum of two gradients: tensors, rows or arrays; None is no gradient yet."""
    if total is None or part is None:
        return part if total is None else total
    if isinstance(total, list):
        longer, shorter = (total, part) if len(total) >= len(part) else (part, total)
        rest = longer[len(shorter) :]
        return [added(one, other) for one, other in zip(longer, shorter, strict=False)] + rest
    if isinstance(total, Rows) or isinstance(part, Rows):
        return Rows.added([total, part])
    return total + part


def no_gradient(value: Any, by_rows: bool = False) -> Any:
    """The gradient of a value that nothing depends on: zeros, no rows, or an empty array."""
    if isinstance(value, Unset):
        return None
    if isinstance(value, list):
        return []
    if by_rows:
        index = torch.zeros(0, dtype=torch.int64, device=value.device)
        return Rows(index, value.new_zeros((0, *value.shape[1:])), value.shape[0])
    return torch.zeros_like(value)
