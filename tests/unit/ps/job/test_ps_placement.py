"""fleet.ps.job.placement: blocks of dense parameters and the servers that hold them."""

from __future__ import annotations

import doctest
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import UsageError, UsageTypeError
from fleet.ps.job import placement
from fleet.ps.job.dense_spec import DenseSpec, check_cover
from fleet.ps.job.placement import MIN_BLOCK, HashName, RoundRobin, cut, place
from fleet.ps.job.rules import SGD

SHAPES = st.lists(st.integers(0, 400), max_size=4).map(tuple)


def test_examples() -> None:
    assert doctest.testmod(placement).failed == 0


@pytest.mark.parametrize(
    ("shape", "num_servers", "blocks"),
    [
        ((), 4, [(0, 1)]),
        ((0,), 4, []),
        ((3, 0, 2), 4, []),
        ((5,), 4, [(0, 5)]),
        ((8191,), 4, [(0, 8191)]),
        ((8192,), 4, [(0, 8192)]),
        ((16383,), 4, [(0, 16383)]),  # two blocks of 8192 would need 16384
        ((16384,), 4, [(0, 8192), (8192, 16384)]),
        ((16385,), 4, [(0, 8193), (8193, 16385)]),
        ((100_000,), 3, [(0, 33334), (33334, 66668), (66668, 100_000)]),
        ((100_000,), 1, [(0, 100_000)]),
        ((100, 1000), 3, [(0, 34000), (34000, 68000), (68000, 100_000)]),  # whole rows
        ((3, 10_000), 2, [(0, 20_000), (20_000, 30_000)]),
        ((1, 100_000), 4, [(0, 100_000)]),  # a row is never cut
        ((4, 3, 5000), 4, [(0, 15_000), (15_000, 30_000), (30_000, 45_000), (45_000, 60_000)]),
        ((5, 10_000), 4, [(0, 20_000), (20_000, 40_000), (40_000, 50_000)]),  # rounding up leaves a server without
    ],
)
def test_cut(shape: tuple[int, ...], num_servers: int, blocks: list[tuple[int, int]]) -> None:
    assert cut(shape, num_servers) == blocks


@given(SHAPES, st.integers(1, 40), st.sampled_from([1, 7, 100, MIN_BLOCK]))
def test_blocks_are_whole_rows_and_large_enough(shape: tuple[int, ...], num_servers: int, min_block: int) -> None:
    blocks = cut(shape, num_servers, min_block)
    size = math.prod(shape)
    assert [position for block in blocks for position in block] == sorted(
        [begin for begin, _ in blocks] + [end for _, end in blocks]
    )
    assert [begin for begin, _ in blocks] == [0, *(end for _, end in blocks)][: len(blocks)]
    assert sum(end - begin for begin, end in blocks) == size
    assert len(blocks) <= num_servers
    sizes = [end - begin for begin, end in blocks]
    assert all(one >= min_block for one in sizes[:-1])
    assert all(one == sizes[0] >= sizes[-1] > 0 for one in sizes[:-1])
    if len(shape) >= 2 and size:
        assert all(one % math.prod(shape[1:]) == 0 for one in sizes)


@given(
    st.lists(SHAPES, max_size=12),
    st.integers(1, 6),
    st.sampled_from([RoundRobin(), HashName(), lambda names, num_servers: [num_servers - 1] * len(names)]),
    st.booleans(),
)
def test_every_parameter_is_covered_once(
    shapes: list[tuple[int, ...]], num_servers: int, how: Any, is_cut: bool
) -> None:
    parameters = [(f"p{index}", shape, index % 2) for index, shape in enumerate(shapes)]
    blocks = place(parameters, num_servers, how, is_cut=is_cut)
    check_cover([(name, math.prod(shape)) for name, shape, _ in parameters], blocks)
    assert all(block.server < num_servers for block in blocks)
    assert {block.parameter: block.group for block in blocks} == {
        name: group for name, shape, group in parameters if math.prod(shape)
    }
    DenseSpec((SGD(), SGD()), tuple((name, shape) for name, shape, _ in parameters), blocks)
    if not is_cut:
        assert len(blocks) == sum(math.prod(shape) > 0 for shape in shapes)


def test_round_robin_walks_over_all_blocks() -> None:
    blocks = place([("w", (30_000,), 0), ("none", (0,), 0), ("b", (7,), 1), ("v", (20_000,), 0)], 3)
    assert [(block.parameter, block.server) for block in blocks] == [
        ("w", 0), ("w", 1), ("w", 2), ("b", 0), ("v", 1), ("v", 2),
    ]  # fmt: skip
    assert place([("w", (30_000,), 0), ("b", (7,), 1)], 3, RoundRobin()) == blocks[:4]


def test_a_dispatcher_sees_the_names_of_blocks() -> None:
    seen: list[Sequence[str]] = []

    def dispatcher(names: Sequence[str], num_servers: int) -> list[int]:
        seen.append(names)
        return [num_servers - 1 for _ in names]

    blocks = place([("w", (30_000,), 0), ("b", (7,), 0)], 3, dispatcher)
    assert seen == [["w.block0", "w.block1", "w.block2", "b"]]
    assert {block.server for block in blocks} == {2}


def test_a_dispatcher_may_answer_with_numpy() -> None:
    blocks = place([("a", (3,), 0), ("b", (3,), 0)], 2, lambda names, num_servers: np.arange(len(names)) % num_servers)
    assert [block.server for block in blocks] == [0, 1]
    assert all(type(block.server) is int for block in blocks)


def test_hash_name_is_the_same_everywhere() -> None:
    names = [f"layer{index}.weight" for index in range(8)]
    assert HashName().dispatch(names, 5) == [1, 1, 0, 4, 1, 1, 0, 1]
    program = f"from fleet.ps.job.placement import HashName; print(HashName().dispatch({names!r}, 5))"
    for seed in "01":
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        )
        assert done.stdout.strip() == "[1, 1, 0, 4, 1, 1, 0, 1]"


@pytest.mark.parametrize("num_servers", [2, 3, 4, 8])
def test_hash_name_spreads(num_servers: int) -> None:
    names = [f"layers.{layer}.{part}.block{block}" for layer in range(50) for part in "qkv" for block in range(4)]
    counts = Counter(HashName().dispatch(names, num_servers))
    assert min(counts[server] for server in range(num_servers)) > 0.6 * len(names) / num_servers


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ([0], r"must return one server per block, got 1 for 2 blocks"),
        ([0, 2], r"each int >= 0 and <= 1, got 2 for block 'b'"),
        ([-1, 0], r"got -1 for block 'a'"),
        ([0, 0.5], r"got 0.5 for block 'b'"),
        (None, r"got None for the blocks"),
        ("01", r"got '01' for the blocks"),
    ],
)
def test_a_dispatcher_with_a_wrong_answer(answer: Any, line: str) -> None:
    def dispatcher(names: Sequence[str], num_servers: int) -> Any:
        return answer

    with pytest.raises(UsageError, match=f"dispatcher dispatcher .*{line}"):
        place([("a", (3,), 0), ("b", (3,), 0)], 2, dispatcher)


@pytest.mark.parametrize(
    ("dispatcher", "line"),
    [
        (RoundRobin, r"got the class RoundRobin; give RoundRobin\(\)"),
        (3, "must be callable or have a method dispatch, got 3"),
        (lambda names: names, "dispatcher <lambda> must take two arguments, names and num_servers"),
    ],
)
def test_what_is_no_dispatcher(dispatcher: Any, line: str) -> None:
    with pytest.raises(UsageTypeError, match=line):
        place([("a", (3,), 0)], 2, dispatcher)


def test_an_error_of_the_users_own_dispatcher_is_passed_on() -> None:
    def dispatcher(names: Sequence[str], num_servers: int) -> list[int]:
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        place([("a", (3,), 0)], 2, dispatcher)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (((3,), 0), "placement: num_servers must be >= 1, got 0"),
        (((3,), 1, 0), "placement: min_block must be >= 1, got 0"),
        (((-3,), 1), r"a dense parameter: shape\[0\] must be >= 0, got -3"),
    ],
)
def test_what_cannot_be_cut(arguments: Any, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        cut(*arguments)
