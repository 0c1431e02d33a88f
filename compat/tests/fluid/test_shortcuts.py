"""Shortcuts of layers on tensors: an error comes out as it is, nothing is computed a second time another way."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import fleet_programs as static
from fleet.errors import UsageError, UsageTypeError
from fleet_paddle import mode
from fleet_paddle.dygraph import to_variable
from fleet_paddle.fluid import layers as L  # noqa: N812 - as scripts call it
from fleet_paddle.fluid import shortcuts, traced

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def imperative() -> Iterator[None]:
    with mode.guard():
        yield


def test_shortcuts_take_what_the_layers_take() -> None:
    for name, function in shortcuts.FUNCTIONS.items():
        layer = inspect.signature(getattr(static.layers, name)).parameters
        for place, argument in enumerate(inspect.signature(function).parameters):
            assert argument in layer, f"{name}: {argument}"
            assert list(layer)[place] == argument or argument == "name", f"{name}: {argument}"


@pytest.mark.parametrize(
    "failure",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_too_little_memory_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    calls: list[str] = []

    def short(x: torch.Tensor, y: torch.Tensor) -> Any:
        calls.append("shortcut")
        raise failure

    monkeypatch.setitem(shortcuts.FUNCTIONS, "matmul", short)
    monkeypatch.setattr(traced.Traced, "__call__", lambda *_: calls.append("operators"))
    x = to_variable(X)
    with pytest.raises(type(failure)) as caught:
        L.computed("matmul", static.layers.matmul)(x, L.transpose(x, [1, 0]))
    assert caught.value is failure
    assert calls == ["shortcut"]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: L.matmul(x, x), UsageError, r"matmul: X 'x0' of shape \[2, 3\]"),
        (lambda x: L.reshape(x, [4]), UsageError, "reshape"),
        (lambda x: L.transpose(x, [0, 0]), UsageError, "transpose"),
        (lambda x: L.elementwise_add(x, 2.0), UsageTypeError, "elementwise_add"),
        (lambda x: L.relu(x, alpha=1), TypeError, r"relu\(\) got an unexpected keyword"),
    ],
)
def test_the_layer_says_what_it_refuses(call: Callable[[Any], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        call(to_variable(X))
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda x: L.scale(x, "2"), X * 2),
        (lambda x: L.scale(x, np.float32(2), np.float32(1)), X * 2 + 1),
        (lambda x: L.reduce_sum(x, dim=np.array([0])), X.sum(0)),
        (lambda x: L.reduce_sum(x, dim=[0, -2]), X.sum(0)),
        (lambda x: L.reduce_mean(x, dim=1, keep_dim=1), X.mean(1, keepdims=True)),
        (lambda x: L.reduce_mean(x, dim=to_variable(np.array([0, 1]))), X.mean().reshape(1)),
        (lambda x: L.reshape(x, to_variable(np.array(6)).sum()), X.reshape(6)),
        (lambda x: L.transpose(x, [1.0, 0]), X.T),
    ],
)
def test_what_torch_would_refuse_is_left_to_the_operators(call: Callable[[Any], Any], wanted: Any) -> None:
    np.testing.assert_allclose(call(to_variable(X)).numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("ignored", [-100, 2])
def test_cross_entropy_of_classes_is_that_of_the_operators(ignored: int) -> None:
    labels = to_variable(np.array([[2], [0]]))
    found = []
    for call in (L.softmax_with_cross_entropy, traced.Traced("", static.layers.softmax_with_cross_entropy)):
        x = to_variable(X)
        x.stop_gradient = False
        given = (x, labels), {"ignore_index": ignored}
        loss = call(*given) if isinstance(call, traced.Traced) else call(*given[0], **given[1])
        loss.backward()
        found += [loss.detach(), x.grad]
    assert found[0].shape == [2, 1]
    torch.testing.assert_close(found[0], found[2])
    torch.testing.assert_close(found[1], found[3])


@pytest.mark.parametrize(
    "others",
    [{"return_softmax": True}, {"axis": 0}, {"soft_label": True}],
)
def test_other_cases_of_cross_entropy_are_for_the_operators(others: dict[str, Any]) -> None:
    label = to_variable(np.array([[2], [0]]))
    assert shortcuts.FUNCTIONS["softmax_with_cross_entropy"](to_variable(X), label, **others) is None
