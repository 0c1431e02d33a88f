"""Arithmetic of variables: broadcasting by axis, gradients, numbers, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageError, UsageTypeError
from fleet_programs import layers
from fleet_programs.backward.backward import append_backward
from fleet_programs.layers.io import fed
from fleet_programs.parameters.initializer import Constant
from fleet_programs.program.variable import Variable
from program_support.programs import building
from program_support.static_ops import check, normal

X, Y = normal(4, 3, 2), normal(4, 3, 2)
Reference = Callable[..., torch.Tensor]


def parameter(*shape: int) -> Variable:
    return layers.create_parameter(shape, "float64")


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("elementwise_add", torch.add),
        ("elementwise_sub", torch.sub),
        ("elementwise_mul", torch.mul),
        ("elementwise_div", torch.div),
        ("elementwise_max", torch.maximum),
        ("elementwise_min", torch.minimum),
        ("elementwise_pow", torch.pow),
    ],
)
@pytest.mark.parametrize(
    ("shape", "axis", "wide"),
    [((4, 3, 2), -1, (4, 3, 2)), ((2,), -1, (2,)), ((3,), 1, (3, 1)), ((4, 3), 0, (4, 3, 1)), ((3, 1), 1, (3, 1))],
)
def test_y_is_laid_beside_x_from_axis_on(
    name: str, reference: Reference, shape: tuple[int, ...], axis: int, wide: tuple[int, ...]
) -> None:
    x = abs(X) + 0.5
    layer = getattr(layers, name)
    check(lambda x: layer(x, parameter(*shape), axis), {"x": x}, lambda x, y: reference(x, y.view(wide)))


@pytest.mark.parametrize(
    ("x_shape", "y_shape", "axis"),
    [
        ((1,), (4, 3), -1),  # the larger one on the right
        ((3,), (4, 3), -1),
        ((4, 1), (4, 3), -1),
        ((4, 3), (4, 1), -1),
        ((1, 5), (5, 1), 1),  # ones that stick out are not counted, nothing is repeated
        ((4, 5), (5, 1), 1),
        ((4, 1, 2), (1, 3), 0),  # both sides are repeated
        ((4, 1, 2), (1, 3, 1), -1),
    ],
)
def test_sizes_of_one_are_repeated(x_shape: tuple[int, ...], y_shape: tuple[int, ...], axis: int) -> None:
    def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        start = x.dim() - y.dim() if axis == -1 else axis
        return x * y.reshape(y.shape + (1,) * (x.dim() - start - y.dim())) if start > 0 or axis == 0 else x * y

    if x_shape[-1] == 5:
        reference = lambda x, y: x * y.view(5)  # noqa: E731
    check(lambda: layers.elementwise_mul(parameter(*x_shape), parameter(*y_shape), axis), {}, reference)


@pytest.mark.parametrize("name", ["elementwise_max", "elementwise_min"])
def test_equal_elements_share_a_gradient(name: str) -> None:
    both = np.array([[1.0, 2.0], [3.0, 4.0]])
    reference = torch.maximum if name.endswith("max") else torch.minimum
    check(getattr(layers, name), {"x": both, "y": np.array([[1.0, 0.0], [5.0, 4.0]])}, reference)


def test_mod_and_floordiv_are_rounded_down() -> None:
    with building() as built:
        x, y = fed("x", [-1], "int64"), fed("y", [-1], "int64")
        outs = layers.elementwise_mod(x, y), layers.elementwise_floordiv(x, y)
    a, b = np.array([7, -7, 7, -7]), np.array([3, 3, -3, -3])
    mod, div = built.run({"x": a, "y": b}, *outs)
    assert mod.tolist() == (a % b).tolist()
    assert div.tolist() == (a // b).tolist()


def test_sizes_of_a_batch_must_be_equal() -> None:
    with building() as built:
        out = layers.elementwise_add(fed("x", [-1, 2]), fed("y", [-1, 2]))
    ones = np.ones((3, 2), np.float32)
    assert built.run({"x": ones, "y": ones}, out)[0].tolist() == (ones * 2).tolist()
    with pytest.raises(
        UsageError, match=r"test_elementwise.py:\d+: elementwise_add: X 'x' has shape \[3, 2\].* \[1, 2\]"
    ):
        built.run({"x": ones, "y": ones[:1]}, out)


@pytest.mark.parametrize(
    ("x", "y", "axis", "message"),
    [
        ([-1, 3], [-1, 4], -1, "3 beside 4"),
        ([-1, 3], [3, 2], 1, "does not lie in X 'x'"),
        ([3], [4, 3], 0, "does not lie in X 'x'"),
    ],
)
def test_what_does_not_fit_is_found_while_building(x: list[int], y: list[int], axis: int, message: str) -> None:
    with building(), pytest.raises(UsageError, match=rf"test_elementwise.py:\d+: .*{message}"):
        layers.elementwise_add(fed("x", x), fed("y", y), axis)


def test_dtypes_must_be_equal_and_both_sides_variables() -> None:
    with building():
        x = fed("x", [-1, 3])
        with pytest.raises(UsageError, match="X 'x' is float32 and Y 'y' is int64; cast one of them"):
            layers.elementwise_add(x, fed("y", [-1, 3], "int64"))
        with pytest.raises(UsageTypeError, match="y must be a Variable, got ndarray"):
            layers.elementwise_add(x, np.ones(3))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "expression",
    [
        lambda x: x + 2,
        lambda x: 2 + x,
        lambda x: x - 2.5,
        lambda x: 2.5 - x,
        lambda x: x * 3,
        lambda x: 3 * x,
        lambda x: x / 4,
        lambda x: 4 / x,
        lambda x: x**2,
        lambda x: -x,
        lambda x: x * x + x / (x + 3) - x,
        lambda x: x * np.float32(2),
    ],
)
def test_numbers_and_variables_go_together(expression: Callable[[Any], Any]) -> None:
    check(expression, {"x": abs(X) + 0.5}, expression)


def test_a_number_costs_one_operator() -> None:
    with building() as built:
        x = fed("x", [-1, 3])
        _ = (x + 1, x - 1, 1 - x, x * 2, x / 2)
    assert [op.type for op in built.main.global_block().ops] == ["scale"] * 5


def test_the_left_side_decides_the_dtype_and_integers_stay_whole() -> None:
    with building() as built:
        x, n = fed("x", [-1], "float32"), fed("n", [-1], "int64")
        outs = [x + n, n + 1, n * 2, n / 2, n * 0.5, n.astype("float64"), n / n]
    assert [one.dtype for one in outs] == ["float32", "int64", "int64", "float32", "float32", "float64", "float32"]
    found = built.run({"x": np.array([0.5], np.float32), "n": np.array([3])}, *outs)
    assert [one.tolist() for one in found] == [[3.5], [4], [6], [1.5], [1.5], [3.0], [1.0]]
    with building(), pytest.raises(UsageTypeError, match="got list"):
        _ = fed("x", [-1]) * [1.0]


def test_only_the_gradient_that_is_wanted_is_computed() -> None:
    with building() as built:
        x = fed("x", [-1, 2])
        weight = layers.create_parameter([2], "float32", default_initializer=Constant(3.0))
        loss = layers.mean(layers.elementwise_mul(layers.elementwise_add(x, weight), weight))
        ((_, slope),) = append_backward(loss)
    built.start()
    assert [op.type for op in built.main.global_block().ops if op.outputs.get("X@GRAD") == ["x@GRAD"]] == []
    (found,) = built.run({"x": np.array([[1.0, 2.0]], np.float32)}, slope)
    assert found.tolist() == [(1 + 2 * 3) / 2, (2 + 2 * 3) / 2]


@pytest.mark.parametrize(
    ("settings", "reference"),
    [
        ({"scale": 2.0}, lambda x: x * 2),
        ({"bias": 3.0}, lambda x: x + 3),
        ({"scale": 2.0, "bias": 3.0}, lambda x: x * 2 + 3),
        ({"scale": 2.0, "bias": 3.0, "bias_after_scale": False}, lambda x: (x + 3) * 2),
        ({"scale": 2.0, "act": "relu"}, lambda x: torch.relu(x * 2)),
    ],
)
def test_scale(settings: dict[str, Any], reference: Reference) -> None:
    check(lambda x: layers.scale(x, **settings), {"x": X}, reference)


def test_scale_of_integers_takes_whole_numbers_only() -> None:
    with building():
        n = fed("n", [-1], "int64")
        with pytest.raises(UsageError, match="cannot take scale 0.5; cast it to a float"):
            layers.scale(n, 0.5)
        with pytest.raises(UsageError, match="X 'n' is int64; cast both to a float, or use elementwise_floordiv"):
            layers.elementwise_div(n, n)
        with pytest.raises(UsageTypeError, match="scale and bias must be numbers"):
            layers.scale(n, n)


@pytest.mark.parametrize(("is_after", "expected"), [(True, 13.0), (False, 16.0)])
def test_scale_in_place(is_after: bool, expected: float) -> None:
    with building() as built:
        x = layers.fill_constant([1], "float32", 5)
        attrs = {"scale": 2.0, "bias": 3.0, "bias_after_scale": is_after}
        built.main.global_block().append_op("scale", {"X": x}, {"Out": x}, attrs)
    assert built.run({}, x)[0].tolist() == [expected]


@pytest.mark.parametrize(
    ("x", "y", "settings"),
    [
        ((3, 4), (4, 2), {}),
        ((4, 3), (2, 4), {"transpose_x": True, "transpose_y": True, "alpha": 0.5}),
        ((5, 3, 4), (5, 4, 2), {}),
        ((5, 3, 4), (5, 2, 4), {"transpose_y": True}),
        ((5, 4, 3), (5, 4, 2), {"transpose_x": True}),
        ((5, 3, 4), (4, 2), {}),
        ((5, 3, 4), (1, 4, 2), {}),
        ((2, 5, 3, 4), (5, 4, 2), {}),
        ((4,), (4, 2), {}),
        ((3, 4), (4,), {}),
        ((5, 3, 4), (4,), {"alpha": 2.0}),
    ],
)
def test_matmul(x: tuple[int, ...], y: tuple[int, ...], settings: dict[str, Any]) -> None:
    def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        left = x.mT if settings.get("transpose_x") else x
        right = y.mT if settings.get("transpose_y") else y
        return torch.matmul(left, right) * float(settings.get("alpha", 1.0))

    check(lambda: layers.matmul(parameter(*x), parameter(*y), **settings), {}, reference)


def test_matmul_of_vectors_has_one_element_and_wrong_sizes_are_named() -> None:
    check(lambda: parameter(4) @ parameter(4), {}, lambda x, y: torch.dot(x, y).view(1))
    with building():
        x = fed("x", [-1, 3])
        with pytest.raises(UsageError, match=r"X 'x' of shape \[-1, 3\] and Y 'y' of shape \[4, 2\] do not multiply"):
            layers.matmul(x, fed("y", [4, 2]))
        with pytest.raises(UsageError, match="2 matrices beside 5"):
            layers.matmul(fed("a", [2, 3, 4]), fed("b", [5, 4, 3]))


def test_mul_cuts_both_sides_into_matrices() -> None:
    check(
        lambda x: layers.mul(x, parameter(3, 2, 5), x_num_col_dims=1, y_num_col_dims=2),
        {"x": X},
        lambda x, y: torch.einsum("bij,ijk->bk", x, y),
    )
