"""Activations, forward and backward, against torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from fleet.errors import UsageError, UsageTypeError
from fleet_programs import layers
from fleet_programs.layers.io import fed
from fleet_programs.layers.nn import fc
from program_support.programs import building
from program_support.static_ops import check, normal

X = normal(3, 4)
POSITIVE = abs(X) + 0.5

Reference = Callable[[torch.Tensor], torch.Tensor]
CASES: list[tuple[str, dict[str, Any], Reference]] = [
    ("relu", {}, torch.relu),
    ("tanh", {}, torch.tanh),
    ("sigmoid", {}, torch.sigmoid),
    ("logsigmoid", {}, functional.logsigmoid),
    ("tanh_shrink", {}, lambda x: x - x.tanh()),
    ("softplus", {}, lambda x: torch.log1p(x.exp())),
    ("softsign", {}, lambda x: x / (1 + x.abs())),
    ("exp", {}, torch.exp),
    ("log", {}, torch.log),
    ("sqrt", {}, torch.sqrt),
    ("rsqrt", {}, torch.rsqrt),
    ("square", {}, torch.square),
    ("reciprocal", {}, torch.reciprocal),
    ("abs", {}, torch.abs),
    ("sin", {}, torch.sin),
    ("cos", {}, torch.cos),
    *((name, {}, getattr(torch, name)) for name in ("asin", "acos", "atan", "sinh", "cosh", "erf")),
    ("floor", {}, torch.floor),
    ("ceil", {}, torch.ceil),
    ("round", {}, lambda x: torch.copysign((x.abs() + 0.5).floor(), x)),
    ("leaky_relu", {"alpha": 0.1}, lambda x: functional.leaky_relu(x, 0.1)),
    ("elu", {"alpha": 0.7}, lambda x: functional.elu(x, 0.7)),
    ("gelu", {}, functional.gelu),
    ("gelu", {"approximate": True}, lambda x: functional.gelu(x, approximate="tanh")),
    ("relu6", {"threshold": 0.5}, lambda x: x.clamp(0, 0.5)),
    ("pow", {"factor": 3.0}, lambda x: x**3),
    ("stanh", {}, lambda x: 1.7159 * torch.tanh(0.67 * x)),
    ("hard_sigmoid", {}, lambda x: (0.2 * x + 0.5).clamp(0, 1)),
    ("swish", {"beta": 2.0}, lambda x: x * torch.sigmoid(2 * x)),
    ("selu", {}, functional.selu),
    ("selu", {"scale": 2.0, "alpha": 0.5}, lambda x: 2 * functional.elu(x, 0.5)),
    ("softshrink", {"alpha": 0.3}, lambda x: functional.softshrink(x, 0.3)),
    ("hard_shrink", {"threshold": 0.3}, lambda x: functional.hardshrink(x, 0.3)),
    ("thresholded_relu", {"threshold": 0.2}, lambda x: functional.threshold(x, 0.2, 0.0)),
    ("brelu", {"t_min": -0.5, "t_max": 0.5}, lambda x: x.clamp(-0.5, 0.5)),
    ("soft_relu", {"threshold": 0.8}, lambda x: torch.log1p(x.clamp(-0.8, 0.8).exp())),
]


@pytest.mark.parametrize(
    ("name", "settings", "reference"), CASES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_activation_equals_torch(name: str, settings: dict[str, Any], reference: Reference) -> None:
    layer = getattr(layers, name)
    values = POSITIVE if name in ("log", "sqrt", "rsqrt", "pow") else X / 5 if name in ("asin", "acos") else X
    built = check(lambda x: layer(x, **settings), {"x": values}, reference)
    assert built.main.global_block().has_var(f"{name}_0.tmp_0")
    assert layer.__doc__


def test_round_goes_away_from_zero_where_two_are_as_near() -> None:
    with building() as built:
        made = layers.round(fed("x", [6]))
    ties = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5], np.float32)
    assert built.run({"x": ties}, made)[0].tolist() == [1, 2, 3, -1, -2, -3]
    assert layers.round.__doc__ is not None
    assert "away from zero" in layers.round.__doc__


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [-1, 1])
def test_softmax_along_an_axis(name: str, axis: int) -> None:
    layer = getattr(layers, name)
    check(lambda x: layer(x, axis=axis), {"x": normal(2, 3, 4)}, lambda x: getattr(torch, name)(x, axis))


@pytest.mark.parametrize(("mode", "shape"), [("all", ()), ("channel", (1, 3, 1, 1)), ("element", (1, 3, 2, 2))])
def test_prelu_learns_its_slope(mode: str, shape: tuple[int, ...]) -> None:
    check(
        lambda x: layers.prelu(x, mode),
        {"x": normal(2, 3, 2, 2)},
        lambda x, alpha: torch.where(x > 0, x, x * alpha.view(shape)),
    )


def test_maxout_takes_the_greatest_of_neighbours() -> None:
    check(lambda x: layers.maxout(x, 2), {"x": normal(2, 4, 3, 3)}, lambda x: x.view(2, 2, 2, 3, 3).amax(2))


def test_gradients_read_no_more_than_they_need() -> None:
    from fleet_programs.definition.registry import definition

    assert [definition(name).inputs for name in ("relu_grad", "tanh_grad", "sigmoid_grad", "softmax_grad")] == [
        ("Out", "Out@GRAD")
    ] * 4


def test_bad_input_is_named_with_the_line_of_the_script() -> None:
    with building():
        ids, x = fed("ids", [-1, 4], "int64"), fed("x", [-1, 4])
        with pytest.raises(UsageError, match=r"test_activation.py:\d+: relu: X 'ids' must be .*float32.* got int64"):
            layers.relu(ids)
        with pytest.raises(UsageError, match="softmax: axis must be between -2 and 1 .* got 2"):
            layers.softmax(x, axis=2)
        with pytest.raises(UsageError, match="prelu: mode must be all, channel or element, got 'some'"):
            layers.prelu(x, "some")
        with pytest.raises(UsageError, match="maxout: X must have 4 dimensions"):
            layers.maxout(x, 2)
        with pytest.raises(UsageTypeError, match="relu: x must be a Variable, got int"):
            layers.relu(3)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="fc: there is no activation 'nothing'"):
            fc(x, 2, act="nothing")
