"""Classes that are made from a line of text have real signatures, and optimizers for either have those of tensors."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest

from fleet_paddle import optimizer
from fleet_paddle.imperative import optimizer as of_tensors
from fleet_paddle.taking import Taking


class Point(Taking):
    takes = "x, y->height=0, name"

    def take(self, given: dict[str, Any]) -> None:
        self.given = given


def test_arguments_come_under_the_names_behind_their_arrows() -> None:
    assert Point(1, y=2).given == {"x": 1, "height": 2, "name": None}


def test_a_signature_is_that_of_the_line() -> None:
    assert str(signature(Point)) == "(x, y=0, name=None)"
    with pytest.raises(TypeError, match="height"):
        Point(1, height=2)
    with pytest.raises(TypeError, match="missing"):
        Point()


@pytest.mark.parametrize("name", optimizer.__all__)
def test_an_optimizer_for_either_takes_what_that_of_tensors_takes(name: str) -> None:
    assert signature(getattr(optimizer, name)) == signature(getattr(of_tensors, name))
