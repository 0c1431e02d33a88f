"""Signs between variables and brackets behind them, beside torch's; and what Python cannot do with a variable."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageError, UsageTypeError
from fleet_programs import layers
from fleet_programs.expressions import methods
from fleet_programs.layers.io import fed
from program_support.programs import building
from program_support.static_ops import check, normal

KEYS: list[Any] = [
    0,
    -1,
    np.int64(2),
    (0, 1),
    (slice(None), 2),
    (..., -1),
    (slice(1, 3), 0, slice(None, 2)),
    (0, ..., 0),
    (1, -1, -3),
    slice(-2, None),
    (slice(None), slice(1, 9)),
    ...,
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_parts_are_those_of_torch(key: Any) -> None:
    check(lambda x: x[key], {"x": normal(4, 5, 3)}, lambda x: torch.atleast_1d(x[key]))


def test_parts_of_what_a_batch_decides_and_of_parameters() -> None:
    check(lambda x: layers.create_parameter([3, 2], "float64")[1] * x[1], {"x": normal(4, 2)}, lambda x, w: w[1] * x[1])
    with building() as built:
        row = fed("x", [-1, 2])[5]
        assert row.shape == (2,)
    with pytest.raises(UsageError, match=r"test_signs.py:\d+: slice: index 5 is out of bounds"):
        built.run({"x": np.ones((3, 2), np.float32)}, row)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("a", "'x' takes whole numbers and slices between \\[\\], got 'a'; use layers.gather"),
        (True, "got True"),
        (0.5, "got 0.5"),
        (slice(None, None, 2), "slices must have step 1, got 2"),
        (slice(None, "a"), "takes whole numbers"),
        ((0, 0, 0), "'x' has 2 dimensions, and is asked for 3 of them"),
        ((..., ...), "'x' has 2 dimensions"),
        ((0, 4), r"nothing of Input 'x' of shape \[-1, 4\] lies in 4:5 of axis 1"),
        ((0, -5), "lies in -5:-4 of axis 1"),
    ],
    ids=str,
)
def test_parts_that_there_are_not(key: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "_found_by", [])  # what other packages would take
    with building(), pytest.raises(UsageError, match=rf"test_signs.py:\d+: slice: .*{message}"):
        fed("x", [-1, 4])[key]


SIGNS = [
    "x < 1", "x <= x", "1 > x", "x >= 0.5", "x // 2", "7 // x", "x % 2", "7 % x", "2 ** x", "x ** 2",
    "i // 2", "i % 3", "2 ** i", "i < 1.5", "i >= x", "x > i",
]  # fmt: skip


@pytest.mark.parametrize("sign", SIGNS)
def test_signs_are_those_of_torch(sign: str) -> None:
    x, i = np.array([[1, 2, -3, 1.5]], np.float32), np.array([[1, 2, 3, 1]])
    with building() as built:
        out = eval(sign, {"x": fed("x", [-1, 4]), "i": fed("i", [-1, 4], "int64")})
    expected = eval(sign, {"x": torch.from_numpy(x), "i": torch.from_numpy(i)}).numpy()
    (found,) = built.run({"x": x, "i": i}, out)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_gradients_of_signs() -> None:
    check(lambda x: (2.0**x) % 3.0 + x**2, {"x": normal(3, 2)}, lambda x: (2.0**x) % 3.0 + x**2)


def test_numbers_of_numpy_at_the_left() -> None:
    with building() as built:
        x = fed("x", [-1])
        outs = [np.float32(3) - x, np.int64(2) * x, np.float64(1) < x]
    found = built.run({"x": np.array([0.5, 2], np.float32)}, *outs)
    assert [one.tolist() for one in found] == [[2.5, 1.0], [1.0, 4.0], [False, True]]


def test_what_python_cannot_do() -> None:
    with building():
        x = fed("x", [-1, 4])
        with pytest.raises(
            UsageTypeError, match="variable 'x' has no value while a program is built.*branch on what is"
        ):
            bool(x)
        with pytest.raises(UsageTypeError, match=r"'x' cannot be iterated over; take it apart with layers.unstack"):
            list(x)
        with pytest.raises(UsageTypeError, match="a Variable goes together with Variables and numbers, got str"):
            x < "a"  # noqa: B015
        y = fed("y", [-1, 4])
        assert x == fed("x", [-1, 4])
        assert x != y
        assert [y, x].index(x) == 1
        assert len({x, y}) == 2


def test_methods_are_what_a_package_above_provides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "_found_by", [])
    with building():
        x: Any = fed("x", [-1, 4])
        with pytest.raises(AttributeError, match="'Variable' object has no attribute 'doubled'"):
            _ = x.doubled
        with pytest.raises(AttributeError, match=r"variable 'x' has no numpy\(\): .* fetch it with exe.run"):
            x.numpy()
        assert copy(x).name == "x"
        methods.provide(lambda x, name: (lambda: x + x) if name == "doubled" else None)
        assert x.doubled().shape == (-1, 4)
        with pytest.raises(AttributeError, match=r"no item\(\)"):
            x.item()
        assert not hasattr(x, "tripled")


def test_products_need_variables_on_both_sides() -> None:
    with building():
        x = fed("x", [-1, 4])
        with pytest.raises(UsageTypeError, match=r"test_signs.py:\d+: matmul: y must be a Variable, got float"):
            x @ 2.0  # type: ignore[operator]
        with pytest.raises(UsageTypeError, match="cast: x must be a Variable, got int"):
            layers.cast(3, "int64")  # type: ignore[arg-type]


def test_numbers_are_compared_value_by_value_and_variables_by_what_they_are() -> None:
    with building() as built:
        x, y = fed("x", [-1], "int64"), fed("y", [-1], "int64")
        outs = [x == 2, x != 2, x != np.int64(0)]
        assert [one.dtype for one in outs] == ["bool"] * 3
        assert x != y
        assert x in (y, x)
        assert x not in (y, None)
        assert len({x, y}) == 2
    found = built.run({"x": np.array([0, 2])}, *outs)
    assert [one.tolist() for one in found] == [[False, True], [True, False], [False, True]]


def test_brackets_take_no_new_values_without_a_package_that_provides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "_found_by", [])
    with building(), pytest.raises(UsageError, match=r"'x' takes no new values between \[\]; use layers.where"):
        fed("x", [2])[0] = 1.0
