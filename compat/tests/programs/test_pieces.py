"""Windows of images as ragged rows, random pieces, centres of classes, conditions, and an LSTM with a projection."""

from __future__ import annotations

import importlib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import fleet_programs as static
from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.programs.layers import pieces
from fleet_paddle.programs.layers.recurrent import projected
from program_support.programs import building
from program_support.static_ops import check, feed_variable, normal

fluid: Any = importlib.import_module("paddle.fluid")
OFFSETS = np.array([0, 2, 2, 5, 6])
WIDTH, SIZE = 3, 2


@pytest.mark.parametrize(
    ("filter_size", "stride", "padding", "around"),
    [(2, 1, 0, (0, 0, 0, 0)), ([3, 2], [2, 1], (1, 2), (2, 2, 1, 1)), (2, 3, (1, 0, 2, 3), (0, 3, 1, 2))],
)
def test_windows_are_rows(filter_size: Any, stride: Any, padding: Any, around: Any) -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        columns = functional.unfold(functional.pad(x, around), filter_size, stride=stride)
        return torch.cat([image.T for image in columns])

    check(lambda x: pieces.im2sequence(x, filter_size, stride, padding), {"x": normal(3, 2, 5, 6)}, reference)


def test_each_image_is_one_row_of_windows() -> None:
    image = np.arange(18, dtype=np.float32).reshape(2, 1, 3, 3)
    with building() as built:
        found = pieces.im2sequence(static.data("x", [None, 1, 3, 3]), 2)
        sums = static.layers.sequence_pool(found, "sum")
        assert found.shape == (-1, 4)
        with pytest.raises(UsageError, match=r"a window of \[4, 4\] is larger than X"):
            pieces.im2sequence(static.data("y", [None, 1, 3, 3]), 4)
        with pytest.raises(UsageError, match="stride must be a number or 2 of them, got 0"):
            pieces.im2sequence(static.data("z", [None, 1, 3, 3]), 1, 0)
        with pytest.raises(NotSupportedError, match="images of several sizes in a batch"):
            pieces.im2sequence(static.data("w", [None, 1, 3, 3]), input_image_size=found)
    built.start()
    windows, by_image = built.run({"x": image}, found, sums)
    assert np.array_equal(windows[:2], [[0, 1, 3, 4], [1, 2, 4, 5]])
    assert np.array_equal(by_image, [windows[:4].sum(0), windows[4:].sum(0)])


def test_pieces_are_random_and_whole() -> None:
    x = np.arange(8 * 3 * 5 * 7, dtype=np.float32).reshape(8, 3, 5, 7)
    with building() as built:
        out = pieces.random_crop(static.data("x", [None, 3, 5, 7]), [3, 2, 4])
        assert out.shape == (-1, 3, 2, 4)
        with pytest.raises(UsageError, match="shape must be that of a piece"):
            pieces.random_crop(static.data("y", [None, 3, 5, 7]), [3, 6, 4])
    built.start()
    (found,) = built.run({"x": x}, out)
    places = set()
    for image, piece in zip(x, found, strict=True):
        row, column = np.argwhere(image[0] == piece[0, 0, 0])[0]
        assert np.array_equal(image[:, row : row + 2, column : column + 4], piece)
        places.add((int(row), int(column)))
    assert len(places) > 1, "each image has a place of its own"


def test_centres_move_to_their_examples() -> None:
    x, label = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 5.0]]), np.array([[1], [1], [0]])
    with building() as built:
        given = static.data("x", [None, 2], "float64")
        given.stop_gradient = False
        attr = static.ParamAttr("centres", static.initializer.Constant(0.5))
        loss = pieces.center_loss(given, static.data("label", [None, 1], "int64"), 3, 0.5, attr)
        kept = built.main.clone(for_test=True)
        (slope,) = static.gradients(loss, given)
    built.start()
    static.Executor().run(kept, {"x": x, "label": label}, [loss.name], scope=built.scope)
    assert (built["centres"] == 0.5).all(), "evaluation leaves them"
    found, slopes = built.run({"x": x, "label": label}, loss, slope)
    away = x - 0.5
    np.testing.assert_allclose(found, (away**2).sum(1, keepdims=True) / 2)
    np.testing.assert_allclose(slopes, away)
    moved = [0.5 + 0.5 * away[2] / 2, 0.5 + 0.5 * (away[0] + away[1]) / 3, [0.5, 0.5]]
    np.testing.assert_allclose(built["centres"], moved)


def test_a_condition_must_hold() -> None:
    with building() as built:
        x = static.data("x", [None, 1])
        pieces.Assert(static.layers.less_than(x, static.layers.fill_constant([1], "float32", 3.0)), [x], 2)
        out = static.layers.scale(x, 2.0)
    built.start()
    assert built.run({"x": np.ones((2, 1), np.float32)}, out)[0].sum() == 4
    with pytest.raises(UsageError, match=r"Assert: .* is not true, x = \[1.0, 5.0\]"):
        built.run({"x": np.array([[1], [5], [6]], np.float32)}, out)


@pytest.mark.parametrize(("peeps", "is_reverse", "with_states"), [(True, False, True), (False, True, False)])
@pytest.mark.parametrize("which", [0, 1])
def test_dynamic_lstmp(peeps: bool, is_reverse: bool, with_states: bool, which: int) -> None:
    def build(x: Any, h: Any = None, c: Any = None) -> Any:
        return projected.dynamic_lstmp(
            x, 4 * WIDTH, SIZE, None, None, peeps, is_reverse, h_0=h, c_0=c, cell_clip=0.6, proj_clip=0.5
        )[which]

    def reference(x: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        *states, weight, project, bias = more
        begin = states or [x.new_zeros(4, SIZE), x.new_zeros(4, WIDTH)]
        eyes = bias[0, 4 * WIDTH :].view(3, WIDTH) if peeps else bias.new_zeros(3, WIDTH)
        outs: list[torch.Tensor] = []
        for row, (first, last) in enumerate(pairwise(OFFSETS)):
            state, cell, found = begin[0][row], begin[1][row], []
            for place in reversed(range(first, last)) if is_reverse else range(first, last):
                chosen, enter, forget, leave = (x[place] + state @ weight + bias[0, : 4 * WIDTH]).view(4, WIDTH)
                made = torch.sigmoid(forget + eyes[1] * cell) * cell
                cell = (made + torch.sigmoid(enter + eyes[0] * cell) * torch.tanh(chosen)).clamp(-0.6, 0.6)
                hidden = torch.sigmoid(leave + eyes[2] * cell) * torch.tanh(cell)
                state = torch.tanh(hidden @ project).clamp(-0.5, 0.5)
                found.append((state, cell)[which])
            outs += reversed(found) if is_reverse else found
        return torch.stack(outs)

    states = {"h": normal(4, SIZE), "c": normal(4, WIDTH)} if with_states else {}
    check(build, {"x": (normal(6, 4 * WIDTH), OFFSETS), **states}, reference)


def test_scripts_find_them() -> None:
    for name in ("im2sequence", "dynamic_lstmp", "random_crop", "center_loss", "Assert"):
        assert callable(getattr(fluid.layers, name))
    with building(), pytest.raises(UsageError, match=r"must be \[values, 4 \* width\], 12 columns"):
        projected.dynamic_lstmp(feed_variable("x", (normal(6, 8), OFFSETS)), 12, 2)
