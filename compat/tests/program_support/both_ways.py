"""One function of PaddlePaddle 2.0 on tensors and on variables: values, gradients, and the forms of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fleet_programs as static
from fleet_paddle import imperative, mode
from fleet_programs import Program
from program_support.programs import building


def several(made: Any) -> list[Any]:
    """Results in a list."""
    return list(made) if isinstance(made, tuple | list) else [made]


def loss_of(made: Any) -> Any:
    """A number that every float of the results matters for; None if there is none."""
    floats = [one for one in several(made) if "float" in str(one.dtype)]
    return sum(imperative.sum(one * one) * (place + 1.0) for place, one in enumerate(floats)) if floats else None


def same(call: Callable[..., Any], *arrays: Any, unknown: bool = False, moving: int | None = None) -> None:
    """A function of variables computes what it computes of tensors, and so do its gradients.

    A first size is for the batch to decide where it is that of the first array, and not the only one; if `unknown`, so
    are all of the first array but the second. Gradients are those of the first `moving` arrays, or of all floats.
    """
    mode.disable_static()
    stops = [one.dtype.kind != "f" or (moving is not None and place >= moving) for place, one in enumerate(arrays)]
    tensors = [imperative.to_tensor(one, stop_gradient=stop) for one, stop in zip(arrays, stops, strict=True)]
    wanted = call(*tensors)
    total = loss_of(wanted)
    if total is not None:
        total.backward()
    mode.enable_static()
    with building() as built:
        given = [_variable(place, one, unknown, len(arrays[0])) for place, one in enumerate(arrays)]
        made = call(*given)
        floats = [var for var, stop in zip(given, stops, strict=True) if not stop]
        loss = loss_of(made)
        slopes = [] if loss is None else static.gradients(loss, floats)
    text = str(built.main)
    assert str(Program.parse_from_string(text)) == text
    feeds = {f"x{place}": one for place, one in enumerate(arrays)}
    found = built.run(feeds, *several(made), *(one for one in slopes if one is not None))
    mode.disable_static()
    expected = [one.detach() for one in several(wanted)]
    for var, one in zip(several(made), expected, strict=True):
        shape = list(one.shape) or [1]  # a number has one dimension in programs
        assert len(var.shape) == len(shape), var
        assert all(size in (-1, real) for size, real in zip(var.shape, shape, strict=True)), var
    if total is not None:
        leaves = [one for one in tensors if not one.stop_gradient]
        assert [one is None for one in slopes] == [one.grad is None for one in leaves]
        expected += [one.grad for one in leaves if one.grad is not None]
    for got, tensor in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, tensor.numpy().reshape(got.shape), rtol=1e-3, atol=1e-4)


def _variable(place: int, array: Any, unknown: bool, batch: int) -> Any:
    shape: list[int | None] = list(array.shape)
    if array.ndim > 1 and shape[0] == batch:
        shape[0] = None
    if unknown and not place:
        shape = [None, array.shape[1], *[None] * (array.ndim - 2)]
    made = static.data(f"x{place}", shape, str(array.dtype))
    made.stop_gradient = array.dtype.kind != "f"
    return made
