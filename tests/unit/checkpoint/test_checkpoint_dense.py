"""Dense parameters: blocks and their rule's state load into any other cut, bit for bit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.checkpoint import (
    BlockData,
    BlockForm,
    Manifest,
    begin,
    commit,
    join_buffer,
    load_dense,
    read_manifest,
    save_dense,
    split_buffer,
    state_form,
)
from fleet.checkpoint.files.buffers import Floats
from fleet.errors import CheckpointError

ADAM = state_form(lambda n: 2 * n + 1)


def cut(parameter: str, size: int, ends: list[int], rule: str = "adam") -> list[BlockForm]:
    starts = [0, *ends]
    return [
        BlockForm(parameter, begin, end, size, rule, *ADAM) for begin, end in zip(starts, [*ends, size], strict=True)
    ]


def numbered(block: BlockForm, step: float = 5.0) -> BlockData:
    values = np.arange(block.begin, block.end, dtype=np.float32)
    columns = tuple(values + 1000 * (number + 1) for number in range(block.arrays))
    return BlockData(block, values, columns, np.full(block.scalars, step, np.float32))


def save(folder: Path, servers: list[list[BlockData]], **options: Any) -> Manifest:
    writing = begin(folder)
    pieces = [
        piece
        for server, blocks in enumerate(servers)
        for piece in save_dense(writing, server, len(servers), blocks, **options)
    ]
    commit(writing, folder, Manifest(1, len(servers), tuple(pieces)))
    return read_manifest(folder)


def same(one: BlockData, other: BlockData) -> bool:
    def arrays(data: BlockData) -> list[Floats]:
        return [data.values, *data.arrays, data.scalars]

    return one.block == other.block and all(map(np.array_equal, arrays(one), arrays(other)))


@pytest.mark.parametrize(
    ("width", "form"),
    [
        (lambda _: 0, (0, 0)),
        (lambda n: n, (1, 0)),
        (lambda n: n + 1, (1, 1)),
        (lambda _: 1, (0, 1)),
        (lambda _: 2, (0, 2)),
        (lambda n: 3 * n + 1, (3, 1)),
    ],
)
def test_arrays_and_scalars_of_a_rule(width: Any, form: tuple[int, int]) -> None:
    assert state_form(width) == form


def test_a_buffer_of_blocks_is_cut_and_joined() -> None:
    blocks = cut("a", 5, [2]) + cut("b", 1, [])
    values = np.arange(6, dtype=np.float32)
    state = np.arange(13, dtype=np.float32) + 100
    parts = split_buffer(blocks, values, state)
    assert [part.values.tolist() for part in parts] == [[0, 1], [2, 3, 4], [5]]
    assert [array.tolist() for array in parts[1].arrays] == [[102, 103, 104], [108, 109, 110]]
    assert all(part.scalars.tolist() == [112] for part in parts)
    assert all(np.shares_memory(part.values, values) for part in parts)
    joined = join_buffer(parts)
    assert joined[0].tolist() == values.tolist()
    assert joined[1].tolist() == state.tolist()


def test_a_buffer_without_state_or_blocks() -> None:
    none = np.zeros(0, np.float32)
    block = BlockForm("a", 0, 2, 2, "sgd")
    (part,) = split_buffer([block], np.ones(2, np.float32), none)
    assert [array.tolist() for array in join_buffer([part])] == [[1, 1], []]
    assert split_buffer([], none, none) == []
    assert [array.tolist() for array in join_buffer([])] == [[], []]


SIZE = 100
CUTS = st.lists(st.integers(0, SIZE), max_size=6).map(sorted)


@given(before=CUTS, after=CUTS, piece_bytes=st.sampled_from([1, 60, 400, 1 << 20]), servers=st.integers(1, 3))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_cut_into_any_other(
    tmp_path: Path, before: list[int], after: list[int], piece_bytes: int, servers: int
) -> None:
    blocks = [numbered(block) for block in cut("w", SIZE, before) + cut("x/y", SIZE, after) + cut("one", 1, [])]
    folder = tmp_path / os.urandom(4).hex()
    manifest = save(folder, [blocks[server::servers] for server in range(servers)], piece_bytes=piece_bytes)
    wanted = cut("one", 1, []) + cut("w", SIZE, after) + cut("x/y", SIZE, before)
    found = load_dense(manifest, folder, wanted)
    for data in found:
        expected = numbered(data.block, 5.0 if len(data.block) else 0.0)
        assert same(data, expected)


def test_unequal_scalars_are_those_of_the_longest_part(tmp_path: Path) -> None:
    one, two, three = cut("w", 10, [3, 8])
    manifest = save(tmp_path / "c", [[numbered(two, 7.0)], [numbered(one, 6.0), numbered(three, 8.0)]])
    (whole,) = load_dense(manifest, tmp_path / "c", cut("w", 10, []))
    assert whole.scalars.tolist() == [7.0]
    first, _ = load_dense(manifest, tmp_path / "c", cut("w", 10, [6]))
    assert first.scalars.tolist() == [6.0], "of equally long parts the first"
    assert join_buffer([numbered(one, 6.0), numbered(two, 7.0)])[1][-1] == 7.0


def test_a_large_block_becomes_several_pieces(tmp_path: Path) -> None:
    manifest = save(tmp_path / "c", [[numbered(block) for block in cut("w", 10_000, [])]], piece_bytes=30_000)
    assert len(manifest.dense) == 4
    (whole,) = load_dense(manifest, tmp_path / "c", cut("w", 10_000, []))
    assert same(whole, numbered(whole.block))


def test_only_needed_pieces_are_read(tmp_path: Path) -> None:
    blocks = cut("w", 10, [5])
    manifest = save(tmp_path / "c", [[numbered(blocks[0])], [numbered(blocks[1])]])
    (tmp_path / "c" / manifest.files[1].name).unlink()
    load_dense(manifest, tmp_path / "c", blocks[:1])
    with pytest.raises(CheckpointError, match="server-001-of-002.* is missing"):
        load_dense(manifest, tmp_path / "c", blocks)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (BlockForm("v", 0, 10, 10, "adam", *ADAM), "has no dense parameter 'v'"),
        (BlockForm("w", 0, 10, 20, "adam", *ADAM), "'w' does not fit .*: its number of elements is 20 here and 10 in"),
        (BlockForm("w", 0, 10, 10, "adamw", *ADAM), "its rule is 'adamw' here and 'adam' in the checkpoint"),
        (BlockForm("w", 0, 10, 10, "adam", 3, 1), "its rule's state per element is 3 here and 2 in"),
        (BlockForm("w", 0, 10, 10, "adam", 2, 0), "its rule's state per block is 0 here and 1 in"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, wanted: BlockForm, message: str) -> None:
    manifest = save(tmp_path / "c", [[numbered(block) for block in cut("w", 10, [])]])
    with pytest.raises(CheckpointError, match=message):
        load_dense(manifest, tmp_path / "c", [wanted])


def test_a_block_that_is_not_as_it_says_is_not_saved(tmp_path: Path) -> None:
    block = BlockForm("w", 0, 3, 3, "sgd")
    none = np.zeros(0, np.float32)
    for values in (np.zeros(2, np.float32), np.zeros(3)):
        with pytest.raises(CheckpointError, match=r"parameter 'w': w\[0:3\].values should be float32\[3\]"):
            save_dense(tmp_path, 0, 1, [BlockData(block, values, (), none)])  # type: ignore[arg-type]
