"""`paddle.autograd`: functions with a backward of their own, and backward of several tensors."""

from __future__ import annotations

import gc
import weakref
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageError
from fleet_paddle.imperative.pylayer import PyLayer

paddle: Any = import_module("paddle")


class Scaled(PyLayer):
    """x * y * by, whose gradient is made ten times as large."""

    @staticmethod
    def forward(ctx: Any, x: Any, by: float, y: Any = None) -> Any:
        ctx.by = by
        ctx.save_for_backward(x, y)
        return x * y * by

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        x, y = ctx.saved_tensor()
        assert isinstance(gradient, paddle.Tensor)
        return 10 * gradient * y * ctx.by, 10 * gradient * x * ctx.by


def test_backward_is_the_scripts_own() -> None:
    x, y = paddle.to_tensor([1.0, 2.0], stop_gradient=False), paddle.to_tensor([3.0, 4.0], stop_gradient=False)
    made = Scaled.apply(x * 1, 2.0, y=y)
    assert isinstance(made, paddle.Tensor)
    assert made.numpy().tolist() == [6.0, 16.0]
    made.sum().backward()
    assert x.grad.numpy().tolist() == [60.0, 80.0]
    assert y.grad.numpy().tolist() == [20.0, 40.0]


def test_a_gradient_that_is_missing_is_said() -> None:
    class Forgetful(Scaled):
        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:  # noqa: ARG004
            return gradient

    x = paddle.to_tensor([1.0], stop_gradient=False)
    with pytest.raises(UsageError, match="Forgetful.backward gave 1 gradients for 2 tensors of forward"):
        Forgetful.apply(x, 1.0, x * 2).backward()


def test_several_tensors_at_once() -> None:
    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    paddle.autograd.backward([x * 2, x * 3], [None, paddle.to_tensor([1.0, 0.5])])
    assert x.grad.numpy().tolist() == [5.0, 3.5]
    with pytest.raises(UsageError, match="2 tensors, but 1 grad_tensors"):
        paddle.autograd.backward([x, x], [None])


def test_items_and_versions(tmp_path: Path) -> None:
    x = paddle.to_tensor(np.arange(6.0).reshape(2, 3))
    assert (x.item(4), x.item(1, 2), paddle.to_tensor([7]).item()) == (4.0, 5.0, 7)
    before = x.inplace_version
    x[0] = 1.0
    assert x.inplace_version == before + 1
    paddle.save({"x": x}, str(tmp_path / "x"), protocol=2)
    assert torch.equal(paddle.load(str(tmp_path / "x"))["x"], x)
    with pytest.raises(UsageError, match="protocol must be 2, 3 or 4, got 9"):
        paddle.save({}, str(tmp_path / "y"), protocol=9)


def test_what_is_saved_goes_when_it_is_not_needed_any_more() -> None:
    """An output that is saved hangs on itself; Python's collector of circles, which is off here, must not be needed."""
    made: list[Any] = []

    class Doubled(paddle.autograd.PyLayer):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * 2
            made.append(weakref.ref(y))
            ctx.save_for_backward(None, y, "text")
            return y

        @staticmethod
        def backward(ctx: Any, dy: Any) -> Any:
            nothing, y, text = ctx.saved_tensor()
            assert (nothing, text) == (None, "text")
            return dy * y

    x = paddle.to_tensor([3.0], stop_gradient=False)
    gc.disable()
    try:
        y = Doubled.apply(x)
        y.backward()
        assert x.grad.numpy() == 6.0
        del y
        assert made[0]() is None
    finally:
        gc.enable()
