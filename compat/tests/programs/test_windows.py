"""Functions of windows on variables: values and gradients are those on tensors, whatever comes around the images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.errors import NotSupportedError, UsageError
from fleet_paddle import imperative, mode
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from program_support.both_ways import same
from program_support.programs import building

RANDOM = np.random.default_rng(4)
ROW = RANDOM.standard_normal((2, 4, 7)).astype(np.float32)
IMAGE = RANDOM.standard_normal((2, 4, 7, 6)).astype(np.float32)
VOLUME = RANDOM.standard_normal((2, 4, 5, 6, 7)).astype(np.float32)
FILTERS = {rank: RANDOM.standard_normal((6, 2, *[3, 2, 3][:rank])).astype(np.float32) for rank in (1, 2, 3)}
BACK = {rank: RANDOM.standard_normal((4, 3, *[3, 2, 3][:rank])).astype(np.float32) for rank in (1, 2, 3)}
OWN: dict[int, tuple[Any, Any, Any]] = {
    1: (ROW, F.conv1d, F.conv1d_transpose),
    2: (IMAGE, F.conv2d, F.conv2d_transpose),
    3: (VOLUME, F.conv3d, F.conv3d_transpose),
}

LAST = {1: "NLC", 2: "NHWC", 3: "NDHWC"}


@pytest.fixture(autouse=True)
def nobody_spoke() -> Iterator[None]:
    with mode.kept(), static.scope_guard(static.Scope()):
        yield


PADDINGS: dict[str, Callable[[int], Any]] = {
    "number": lambda rank: 1,  # noqa: ARG005
    "each": lambda rank: [1, 0, 2][:rank],
    "both sides": lambda rank: [1, 0, 0, 1, 2, 1][: 2 * rank],
    "SAME": lambda rank: "SAME",  # noqa: ARG005
    "VALID": lambda rank: "valid",  # noqa: ARG005
}


@pytest.mark.parametrize("way", PADDINGS)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions(rank: int, stride: int, way: str) -> None:
    x, forward, back = OWN[rank]
    padding = PADDINGS[way](rank)
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    same(lambda x, w: forward(x, w, None, stride, padding, groups=2), x, FILTERS[rank])
    same(lambda x, w: forward(x, w, None, stride, padding, 1, 2, LAST[rank]), last, FILTERS[rank])
    same(lambda x, w: back(x, w, None, stride, padding, groups=2), x, BACK[rank])
    same(lambda x, w: back(x, w, None, stride, padding, data_format=LAST[rank]), last, BACK[rank])


def test_sizes_that_a_batch_decides() -> None:
    same(lambda x, w: F.conv2d(x, w, None, 2, "SAME", groups=2), IMAGE, FILTERS[2], unknown=True)
    same(lambda x: F.max_pool2d(x, 3, 2, "SAME"), IMAGE, unknown=True)
    same(lambda x: F.avg_pool2d(x, 2, 2, "SAME"), IMAGE, unknown=True)


def test_a_bias_and_how_large_a_transposed_one_is() -> None:
    bias = RANDOM.standard_normal(3).astype(np.float32)
    same(lambda x, w, b: F.conv2d_transpose(x, w, b, 2, 1, output_size=[14, 11]), IMAGE, BACK[2], bias)
    same(lambda x, w, b: F.conv1d_transpose(x, w, b, 2, 1, 1), ROW, BACK[1], bias)
    same(lambda x, w: F.conv2d(x, w, padding=[[0, 0], [0, 0], [1, 0], [0, 1]], groups=2), IMAGE, FILTERS[2])
    mode.enable_static()
    with (
        building(),
        pytest.raises(UsageError, match=r"output_size must be from \[13, 10\] to \[14, 11\], got \[9, 9\]"),
    ):
        given = static.data("x", [None, 4, 7, 6]), static.data("w", [4, 3, 3, 2])
        F.conv2d_transpose(*given, stride=2, padding=1, output_size=9)


POOLS: dict[str, tuple[Callable[..., Any], Any]] = {
    "max 1": (lambda x: F.max_pool1d(x, 3, 2, [1, 0]), ROW),
    "mean 1": (lambda x: F.avg_pool1d(x, 2, 1, "SAME"), ROW),
    "max 2": (lambda x: F.max_pool2d(x, [3, 2], 2, [1, 0, 0, 1]), IMAGE),
    "max 2 wide": (lambda x: F.max_pool2d(x, 3, 1, 2), IMAGE),
    "mean 2": (lambda x: F.avg_pool2d(x, 3, 2, [1, 0, 0, 1]), IMAGE),
    "mean 2 whole": (lambda x: F.avg_pool2d(x, 3, 2, [1, 0, 0, 1], exclusive=False), IMAGE),
    "mean 2 ceil": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), IMAGE),
    "mean 2 divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), IMAGE),
    "max 3": (lambda x: F.max_pool3d(x, 2, 2, 1, ceil_mode=True), VOLUME),
    "mean 3": (lambda x: F.avg_pool3d(x, 3, 2, 1), VOLUME),
    "mean 3 same": (lambda x: F.avg_pool3d(x, 2, 2, "SAME"), VOLUME),
    "max 3 last": (lambda x: F.max_pool3d(x, 2, data_format="NDHWC"), VOLUME),
    "means 1": (lambda x: F.adaptive_avg_pool1d(x, 3), ROW),
    "means 2": (lambda x: F.adaptive_avg_pool2d(x, [3, None], "NHWC"), IMAGE),
    "means 3": (lambda x: F.adaptive_avg_pool3d(x, 2), VOLUME),
    "largest 1": (lambda x: F.adaptive_max_pool1d(x, 3), ROW),
    "largest 3": (lambda x: F.adaptive_max_pool3d(x, [2, 3, None]), VOLUME),
    "largest 2": (lambda x: F.adaptive_max_pool2d(x, 2, return_mask=True)[0], IMAGE),
}


@pytest.mark.parametrize("kind", POOLS)
def test_pools(kind: str) -> None:
    same(*POOLS[kind])


def test_where_the_greatest_values_were() -> None:
    tensor = imperative.to_tensor(IMAGE)
    mode.enable_static()
    with building() as built:
        x = static.data("x", [None, 4, 7, 6])
        both = [F.max_pool2d(x, 2, return_mask=True)[1], F.adaptive_max_pool2d(x, 3, return_mask=True)[1]]
        with pytest.raises(NotSupportedError, match="return_mask needs channels before sizes and one number"):
            F.max_pool2d(x, 2, padding=[0, 1], return_mask=True)
    found = built.run({"x": IMAGE}, *both)
    mode.disable_static()
    wanted = [F.max_pool2d(tensor, 2, return_mask=True)[1], F.adaptive_max_pool2d(tensor, 3, return_mask=True)[1]]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other.numpy())
