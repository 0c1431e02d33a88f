"""Blocks and servers: the formula of the documents, and dispatchers, the user's own included."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from math import ceil, prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import UsageError, UsageTypeError
from fleet.ps.job.dense_spec import DenseSpec, check_cover
from fleet.ps.job.rules import SGD
from fleet.ps.job.spec import JobSpec
from fleet_programs.program.program import Program
from fleet_programs.transpiler import HashName, PSDispatcher, RoundRobin
from fleet_programs.transpiler.planning.arguments import Arguments
from fleet_programs.transpiler.planning.plan import Plan
from fleet_programs.transpiler.planning.share import shares_of
from fleet_programs.transpiler.planning.slicing import Piece, place

PROGRAM = Program()


def arguments(
    num_servers: int = 2, method: Any = RoundRobin, *, is_cut: bool = True, min_block: int = 8192
) -> Arguments:
    endpoints = tuple(f"10.0.0.{index + 1}:6174" for index in range(num_servers))
    return Arguments(
        0, PROGRAM, PROGRAM, "pserver", endpoints, 2, slice_var_up=is_cut, min_block_size=min_block, split_method=method
    )


def as_documented(shape: Sequence[int], num_servers: int, min_block: int) -> list[int]:
    """The sizes of blocks as the documents compute them."""
    size = prod(shape)
    count = min(num_servers, max(1, size // min_block))
    block = ceil(size / count)
    if len(shape) >= 2:
        row = prod(shape[1:])
        block += (row - block % row) % row
    count = ceil(size / block)
    return [min(block, size - index * block) for index in range(count)]


SHAPES = st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=3).map(tuple), min_size=1, max_size=5)


@given(SHAPES, st.integers(1, 7), st.sampled_from([8, 100, 8192]), st.sampled_from([RoundRobin, HashName]))
def test_blocks_cover_every_parameter_as_documented(
    shapes: list[tuple[int, ...]], num_servers: int, min_block: int, method: type[PSDispatcher]
) -> None:
    pieces = [Piece(f"w_{index}", shape, 0) for index, shape in enumerate(shapes)]
    blocks = place(pieces, arguments(num_servers, method, min_block=min_block))
    check_cover([(piece.name, prod(piece.shape)) for piece in pieces], blocks)
    for piece in pieces:
        sizes = [block.end - block.begin for block in blocks if block.parameter == piece.name]
        assert sizes == as_documented(piece.shape, num_servers, min_block)
    if method is RoundRobin:
        assert [block.server for block in blocks] == [index % num_servers for index in range(len(blocks))]
    plan = Plan(
        JobSpec(2, num_servers, "sync", dense=DenseSpec((SGD(),), tuple((p.name, p.shape) for p in pieces), blocks)),
        arguments(num_servers).endpoints,
        0,
        (),
        (),
    )
    shares = [share for server in range(num_servers) for share in shares_of(plan.job, server)]
    assert Counter(share.parameter for share in shares) == Counter(block.parameter for block in blocks)
    assert sum(prod(share.shape) for share in shares) == sum(prod(shape) for shape in shapes)
    assert Plan.from_note(plan.to_note()) == plan


def test_whole_parameters_are_not_cut() -> None:
    pieces = [Piece("w", (100, 1000), 0, is_whole=True), Piece("v", (100, 1000), 0)]
    assert [(b.parameter, b.end, b.server) for b in place(pieces, arguments())] == [
        ("w", 100_000, 0), ("v", 50_000, 1), ("v", 100_000, 0),
    ]  # fmt: skip
    assert [(b.end, b.server) for b in place(pieces, arguments(is_cut=False))] == [(100_000, 0), (100_000, 1)]


def test_dispatchers() -> None:
    names = ["fc_0.w_0@GRAD", "fc_0.w_0", "fc_0.w_0@GRAD.trainer_1"]
    robin = RoundRobin(["a", "b"])
    assert robin.dispatch(names) == ["a", "b", "a"]
    assert robin.dispatch(names) == ["b", "a", "b"]
    robin.reset()
    assert robin.dispatch(names[:1]) == ["a"]
    hashed = HashName(["a", "b", "c"])
    assert hashed.dispatch(names) == [hashed.eps[zlib.crc32(b"fc_0.w_0") % 3]] * 3

    class Named:  # as old code has it
        def name(self) -> str:
            return "fc_0.w_0"

    assert hashed.dispatch([Named()]) == hashed.dispatch(names[:1])


def test_a_dispatcher_of_the_users_own() -> None:
    seen: list[list[str]] = []

    class Last(PSDispatcher):
        def dispatch(self, varlist: Sequence[Any]) -> list[str]:
            seen.append([f"{var.name} {list(var.shape)}" for var in varlist])
            return [self.eps[-1]] * len(varlist)

    pieces = [Piece("w", (100, 1000), 0), Piece("b", (5,), 0)]
    assert {block.server for block in place(pieces, arguments(method=Last))} == {1}
    assert seen == [
        ["w@GRAD.block0 [50, 1000]", "w@GRAD.block1 [50, 1000]"],
        ["b@GRAD [5]"],
        ["w.block0 [50, 1000]", "w.block1 [50, 1000]", "b [5]"],
    ]

    def round_robin(varlist: Sequence[Any], endpoints: Sequence[str]) -> list[str]:  # as 0.12 has them
        return [endpoints[len(var.name) % 2 and 0] for var in varlist]

    assert [block.server for block in place(pieces, arguments(method=round_robin))] == [0, 0, 0]


def _by_name(varlist: Sequence[Any], endpoints: Sequence[str]) -> list[str]:
    return [endpoints[int("GRAD" in var.name)] for var in varlist]


@pytest.mark.parametrize(
    ("method", "error", "message"),
    [
        (_by_name, UsageError, "_by_name sends 'w' to 10.0.0.1:6174 and its gradient to 10.0.0.2:6174, but both must"),
        (lambda _, eps: eps[:1] * 2, UsageError, "must return a list of 1 endpoints, one for each variable"),
        (lambda *_: ["1.1.1.1:1"], UsageError, "sends 'w@GRAD' to '1.1.1.1:1'; the servers are 10.0.0.1"),
        (list, UsageTypeError, "list must have a method dispatch"),
    ],
)
def test_bad_dispatchers(method: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        place([Piece("w", (3,), 0)], arguments(method=method))
