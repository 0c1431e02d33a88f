"""Functions of any number of tensors."""

from __future__ import annotations

from typing import Any

import torch

from fleet_paddle.imperative.tensor import as_paddle
from fleet_paddle.programs.variables.computed import add
from fleet_paddle.variables import has_variable


def einsum(equation: str, *operands: Any) -> Any:
    """Products of elements, added up over letters that the result does not have: `einsum("ij,jk->ik", x, y)`."""
    if has_variable(operands):
        return add("einsum", {"Operands": list(operands)}, {"equation": equation})
    return as_paddle(torch.einsum(equation, *operands))
