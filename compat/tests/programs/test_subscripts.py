"""What stands between brackets: a variable takes what a tensor takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fleet_paddle.imperative as paddle
import fleet_programs as static
from fleet.errors import NotSupportedError, UsageError
from fleet_paddle import mode
from program_support.both_ways import same
from program_support.programs import building

X = np.random.default_rng(2).standard_normal((4, 5, 6)).astype(np.float32)
PLACES = np.array([2, 0, 2])

KEYS: dict[str, Callable[[Any], Any]] = {
    "steps": lambda x: x[:, ::2],
    "steps back": lambda x: x[::-1, 1, 4:1:-2],
    "new dimensions": lambda x: x[:, None, 0, None],
    "dots": lambda x: x[..., ::3],
    "dots in the middle": lambda x: x[1, ..., None, ::2],
    "a list": lambda x: x[[2, 0, 2]],
    "an array": lambda x: x[:, np.array([[0, 1], [4, 4]])],
    "a list of bools": lambda x: x[[True, False, True, False]],
    "plain": lambda x: x[1:, 2, ...],
}
BY_VARIABLES: dict[str, Callable[[Any, Any], Any]] = {
    "first": lambda x, i: x[i],
    "in the middle": lambda x, i: x[:, i, 1:3],
    "two": lambda x, i: x[i, :, i],
}


@pytest.fixture(autouse=True)
def nobody_spoke() -> Iterator[None]:
    with mode.kept(), static.scope_guard(static.Scope()):
        yield


@pytest.mark.parametrize("kind", KEYS)
def test_a_variable_takes_what_a_tensor_takes(kind: str) -> None:
    same(KEYS[kind], X)


@pytest.mark.parametrize("kind", BY_VARIABLES)
def test_variables_are_places(kind: str) -> None:
    same(BY_VARIABLES[kind], X, PLACES)


def test_masks_and_ends_that_values_decide() -> None:
    same(lambda x: x[x > 0.5], X)
    same(lambda x, y: x[paddle.max(y, axis=1) > 1.0], X, X[:, 0], moving=1)
    mode.enable_static()
    with building() as built:
        x, n = static.data("x", [None, 5, 6]), static.data("n", [1], "int64")
        out = x[:, 1:n, ::2]
        with pytest.raises(NotSupportedError, match="'x': a mask between \\[\\] must stand alone; use paddle.nonzero"):
            x[x > 0, 1]
        for key, message in (("a", "got 'a'"), ((..., ..., None), "takes one ..."), (x, "got 'x' of float32")):
            with pytest.raises(UsageError, match=message):
                x[key]
    assert out.shape == (-1, -1, 3)
    np.testing.assert_array_equal(built.run({"x": X, "n": np.array([4])}, out)[0], X[:, 1:4, ::2])


def _with(key: Any, value: Any) -> Callable[..., Any]:
    def put(x: Any, *more: Any) -> Any:
        made = x * 2.0
        made[key(*more) if callable(key) else key] = value(x) if callable(value) else value
        return made * made

    return put


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ((slice(1, 3), 2), 0.5),
        ((..., slice(None, None, 2)), lambda x: x[..., ::2] * 3.0),
        ((slice(None, None, -1), 1), lambda x: x[:, 0] + 1.0),
        (([2, 0],), lambda x: x[:2]),
        ((1, 2, 3), 7.0),
        (0, lambda x: x[1]),
    ],
    ids=["number", "steps", "steps back", "list", "one place", "row"],
)
def test_new_values_between_brackets(key: Any, value: Any) -> None:
    same(_with(key, value), X)


def test_new_values_where_variables_say() -> None:
    same(_with(lambda i: i, 1.0), X, PLACES)
    same(_with(lambda y: y > 0.5, 0.0), X, X)
    same(_with(lambda y: y > 0.5, 0.0), X, X[:, :, 0])


def test_what_was_read_before_stays() -> None:
    mode.enable_static()
    with building() as built:
        given = static.data("x", [3])
        with pytest.raises(UsageError, match="'x' is fed, and takes no new values; copy it first"):
            given[0] = 1.0
        x = given * 1.0
        before = x + 0.0
        flags = x > 1.5
        x[1] = 9.0
        flags[0] = True
        after = x + 0.0
    built.start()
    found = built.run({"x": np.array([1, 2, 3], np.float32)}, before, after, flags)
    assert [one.tolist() for one in found] == [[1, 2, 3], [1, 9, 3], [True, True, True]]
