"""Functions of variables under the names of version 2.0: values and gradients beside torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fleet.errors import UsageError
from fleet_paddle.imperative.functions import table as functions
from fleet_paddle.imperative.nn.functional import cosine_similarity, normalize
from fleet_programs.layers.io import fed
from program_support.programs import building
from program_support.static_ops import check, normal


@pytest.mark.parametrize(("shifts", "axis"), [(2, 1), (-9, 0), ([7, 0], [-1, 0]), (3, 1), (5, None)])
def test_roll(shifts: Any, axis: Any) -> None:
    check(lambda x: functions.roll(x, shifts, axis), {"x": normal(4, 3)}, lambda x: torch.roll(x, shifts, axis))
    with building(), pytest.raises(UsageError, match="shifts must be as many as axis, or one without"):
        functions.roll(fed("x", [-1, 3]), [1, 2], 0)


@pytest.mark.parametrize("p", ["fro", 1, 3, 0.5, float("inf")])
@pytest.mark.parametrize("axis", [None, 1])
def test_norms_have_slopes_at_zeros(p: Any, axis: Any) -> None:
    rows = normal(4, 3)
    if p != 0.5:
        rows[1] = 0
    order = 2 if p == "fro" else p
    check(
        lambda x: functions.norm(x, p, axis),
        {"x": rows},
        lambda x: torch.linalg.vector_norm(x, order, axis, keepdim=axis is None).view(-1),
    )


def test_directions_have_slopes_at_zeros() -> None:
    rows, other = normal(4, 3), normal(4, 3)
    rows[1] = 0
    check(cosine_similarity, {"x1": rows, "x2": other}, lambda x1, x2: torch.cosine_similarity(x1, x2))
    check(normalize, {"x": rows}, torch.nn.functional.normalize)
