"""fleet.data.files: every row once an epoch, however it is divided, stopped, resumed and shuffled."""

from __future__ import annotations

import gzip
import json
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fleet
from fleet.data.columns.blocks import Block
from fleet.data.formats import text
from fleet.data.reading import piece_batches, piece_order
from fleet.data.reading.piece_order import divide, num_pieces_of, rows_taken_of, spans_of
from fleet.errors import UsageError, UsageTypeError
from support.data.numbered import SCHEMA, Lines, ids, write
from support.serving.readers import ThreadJob


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few lines have several pieces, also when they are shuffled."""
    monkeypatch.setattr(piece_order, "LEAST_BLOCK_BYTES", 50)


@pytest.fixture
def alone() -> Iterator[None]:
    fleet.init()
    yield
    fleet.shutdown()


def read(
    paths: Sequence[str],
    num_workers: int,
    *,
    states: list[dict[str, Any]] | None = None,
    stop_after: Sequence[int] | None = None,
    num_epochs: int = 1,
    until: int | None = None,
    batch_size: int = 7,
    block: int = 60,
    **given: Any,
) -> tuple[list[list[int]], list[dict[str, Any]]]:
    """The rows that each worker of a job got, and their states: at the end, or each after so many batches.

    Each reads so many epochs, or all that are `until` one.
    """

    def work(index: int) -> tuple[list[int], dict[str, Any]]:
        batches = fleet.data.files(paths, SCHEMA, batch_size, format=Lines(block), **given)
        if states is not None:
            batches.load_state_dict(json.loads(json.dumps(states)))
        rows: list[int] = []
        left = None if stop_after is None else stop_after[index]
        for _ in range(num_epochs if until is None else max(0, until - batches.epoch)):
            for batch in batches if left is None else islice(batches, left):
                assert batch.size <= batch_size
                rows += ids(batch)
                left = None if left is None else left - 1
        return rows, batches.state_dict()

    found = ThreadJob(num_workers).run(work)
    return [rows for rows, _ in found], [state for _, state in found]


def flat(parts: list[list[int]]) -> list[int]:
    return [row for part in parts for row in part]


sizes = st.lists(st.integers(0, 90), min_size=1, max_size=4).filter(any)
fast = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@fast
@given(
    sizes=sizes, num_workers=st.integers(1, 4), batch_size=st.integers(1, 40), shuffle=st.booleans(), seed=st.integers()
)
def test_every_row_once(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    num_workers: int,
    batch_size: int,
    shuffle: bool,
    seed: int,
) -> None:
    paths = write(tmp_path_factory.mktemp("files"), sizes)
    parts, _ = read(paths, num_workers, batch_size=batch_size, shuffle=shuffle, seed=seed)
    assert sorted(flat(parts)) == list(range(sum(sizes)))
    if not shuffle:
        assert flat(parts) == list(range(sum(sizes)))


@fast
@given(data=st.data(), sizes=sizes, shuffle=st.booleans(), chain=st.lists(st.integers(1, 4), min_size=2, max_size=4))
def test_a_chain_of_other_numbers_of_workers(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, sizes: list[int], shuffle: bool, chain: list[int]
) -> None:
    """Each run stops somewhere, also in the next epoch; the last reads to the end of the last that was begun."""
    paths = write(tmp_path_factory.mktemp("files"), sizes)
    seen: list[int] = []
    states = None
    for num_workers in chain[:-1]:
        stops = data.draw(st.lists(st.integers(0, 9), min_size=num_workers, max_size=num_workers))
        parts, states = read(paths, num_workers, states=states, stop_after=stops, num_epochs=2, shuffle=shuffle)
        seen += flat(parts)
    assert states is not None
    epochs = [state["epoch"] for state in states] + [int(epoch) for state in states for epoch in state["later"]]
    parts, _ = read(paths, chain[-1], states=states, until=max(epochs) + 1, batch_size=11, shuffle=shuffle)
    assert sorted(seen + flat(parts)) == sorted([*range(sum(sizes))] * (max(epochs) + 1))


@pytest.mark.parametrize("shuffle", [False, True])
def test_workers_in_different_epochs(tmp_path: Path, shuffle: bool) -> None:
    """As in asynchronous training: one is two epochs ahead. Each epoch is completed by the next run, once."""
    paths = write(tmp_path, [200, 100])
    first, states = read(paths, 2, stop_after=[3, 50], num_epochs=3, shuffle=shuffle)
    assert [state["epoch"] for state in states] == [0, 2]
    second, states = read(paths, 3, states=states, stop_after=[9, 9, 9], num_epochs=2, shuffle=shuffle)
    rest, states = read(
        paths, 1, states=states, num_epochs=3 - min(state["epoch"] for state in states), shuffle=shuffle
    )
    counts = [0] * 300
    for row in flat(first) + flat(second) + flat(rest):
        counts[row] += 1
    assert counts == [3] * 300
    assert states[0]["epoch"] == 3


def test_the_same_workers_go_on_batch_for_batch(tmp_path: Path) -> None:
    paths = write(tmp_path, [300, 77])
    whole, _ = read(paths, 2, shuffle=True)
    first, states = read(paths, 2, stop_after=[5, 5], shuffle=True)
    assert all(len(json.dumps(state)) < 400 for state in states)
    rest, _ = read(paths, 2, states=states, shuffle=True)
    assert [one + other for one, other in zip(first, rest, strict=True)] == whole


def test_orders(tmp_path: Path) -> None:
    """Shuffled rows are the same again for a seed, others in another epoch or for another seed, from all over."""
    paths = write(tmp_path, [500, 500])
    (rows,), _ = read(paths, 1, shuffle=True, num_epochs=2, block=400)
    (again,), _ = read(paths, 1, shuffle=True, num_epochs=2, block=400)
    (other,), _ = read(paths, 1, shuffle=True, seed=1, block=400)
    assert rows == again
    assert rows[:1000] != rows[1000:]
    assert rows[:1000] != other
    assert sorted(rows[:1000]) == sorted(rows[1000:]) == sorted(other) == list(range(1000))
    neighbours = sum(abs(one - after) == 1 for one, after in pairwise(rows))
    assert neighbours < 400  # rows of a block that come as they stand would make it 1900


@given(
    sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=60),
    num_parts=st.integers(1, 9),
    gone=st.sets(st.integers(0, 59)),
)
def test_division(sizes: list[int], num_parts: int, gone: set[int]) -> None:
    left = {piece: piece % 3 for piece in range(len(sizes)) if piece not in gone}
    spans = spans_of(left)
    assert rows_taken_of(spans) == left
    parts = [divide(spans, np.array(sizes), part, num_parts) for part in range(num_parts)]
    assert [item for part in parts for item in rows_taken_of(part).items()] == list(left.items())
    ideal = sum(sizes[piece] for piece in left) / num_parts
    for part in parts:
        assert abs(sum(sizes[piece] for piece in rows_taken_of(part)) - ideal) <= max(sizes)
    equal = [num_pieces_of(divide(spans, np.full(60, 8), part, num_parts)) for part in range(num_parts)]
    assert max(equal) - min(equal) <= 1


@pytest.mark.parametrize("uneven", ["pad", "drop"])
def test_even_steps(tmp_path: Path, uneven: Any) -> None:
    """As streams: all end together, and a position in the middle goes on behind what was handed out."""
    paths = write(tmp_path, [40, 41, 9])
    whole, _ = read(paths, 2, uneven=uneven)
    lengths = [len(part) for part in whole]
    first, states = read(paths, 2, uneven=uneven, stop_after=[3, 3])
    rest, _ = read(paths, 2, uneven=uneven, states=states)
    assert [one + other for one, other in zip(first, rest, strict=True)] == whole
    short, long = min(lengths), max(lengths)
    assert long - short <= 7 * 2
    if uneven == "pad":
        assert set(flat(whole)) == set(range(90))
    else:
        assert len(set(flat(whole))) == len(flat(whole)) <= 90


@pytest.mark.parametrize("short", [0, 3])
def test_batches_that_fill_up_go_on_where_they_were(tmp_path: Path, short: int) -> None:
    """A worker that has run out is stopped among the batches that it reads again, once or twice."""
    paths = write(tmp_path, [40, 41, 9])
    whole, _ = read(paths, 2, uneven="pad", batch_size=1, block=200)
    num = len(whole[0])
    first, states = read(paths, 2, uneven="pad", batch_size=1, block=200, stop_after=[num - 4 - short] * 2)
    assert any(not state["rest"] for state in states)
    before_0_2 = [{name: value for name, value in state.items() if name != "padded"} for state in states]
    read(paths, 2, uneven="pad", batch_size=1, block=200, states=before_0_2)
    then, states = read(paths, 2, uneven="pad", batch_size=1, block=200, states=states, stop_after=[2, 2])
    rest, _ = read(paths, 2, uneven="pad", batch_size=1, block=200, states=states)
    assert [one + other + last for one, other, last in zip(first, then, rest, strict=True)] == whole


def test_a_loop_that_is_left_leaves_no_thread(tmp_path: Path, alone: None) -> None:
    paths = write(tmp_path, [3000])
    batches = fleet.data.files(paths, SCHEMA, 10, format=Lines(200), threads=3)
    rows: list[int] = []
    for _ in range(5):
        for batch in batches:
            rows += ids(batch)
            if len(rows) % 50 == 0:
                break
        assert not [one for one in threading.enumerate() if one.name.startswith("fleet-files")]
    assert rows == list(range(250))
    assert (batches.num_done, batches.epoch) == (25, 0)


def test_an_evaluation_reads_everything_and_leaves_the_position(tmp_path: Path, alone: None) -> None:
    batches = fleet.data.files(write(tmp_path, [100]), SCHEMA, 10, format=Lines(100))
    assert ids(next(iter(batches))) == list(range(10))
    assert [row for batch in batches.to_evaluate() for row in ids(batch)] == list(range(100))
    assert ids(next(iter(batches))) == list(range(10, 20))


def test_bad_lines(tmp_path: Path, alone: None, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "lines"
    path.write_text("1\n2\nthree\n" + "4\n" * 1000)
    batches = fleet.data.files(path, SCHEMA, 100, format=Lines(), bad=0.01)
    with caplog.at_level(logging.WARNING):
        assert sum(batch.size for batch in batches) == 1002
    assert "1 lines of epoch 0 could not be read" in caplog.messages[-1]
    assert "b'three' is no number" in caplog.messages[0]
    with pytest.raises(UsageError, match="1 of 1,003 lines cannot be read, the first: b'three'"):
        list(fleet.data.files(path, SCHEMA, 100, format=Lines(), bad=0.0))


@pytest.mark.parametrize("how", ["gone", "longer"])
def test_a_file_that_changes(tmp_path: Path, alone: None, how: str) -> None:
    first, last = write(tmp_path, [500, 500])
    batches = fleet.data.files([first, last], SCHEMA, 10, format=Lines(200))
    rows = []
    with pytest.raises(UsageError, match=f"{last} (cannot be read any more: No such file|had 2,000 bytes when)"):
        for batch in batches:
            rows += ids(batch)
            if how == "gone":
                Path(last).unlink(missing_ok=True)
            else:
                os.truncate(last, 100)
    assert rows == list(range(len(rows)))
    assert len(rows) >= 490, "what was read before the error is handed out"


def test_what_is_refused(tmp_path: Path, alone: None) -> None:
    paths = write(tmp_path, [50, 50])

    def files(paths: Any = paths, batch_size: Any = 10, **given: Any) -> Any:
        return fleet.data.files(paths, SCHEMA, batch_size, format=Lines(), **given)

    batches = files()
    with pytest.raises(TypeError, match="how many batches files have"):
        len(batches)
    state = batches.state_dict()
    other = files(paths[0]).state_dict()
    for wrong, line in [
        ({}, "no state of a reader of files"),
        ({**state, "kind": "samples"}, "no state of a reader of files"),
        (other, "data was '1 files of 140 bytes .* load|data was '1 files"),
        ({**state, "seed": 1}, "seed was 1 when saved and is 0 now"),
        ({**state, "epoch": -1}, "epoch of a reader's state must be a count, got -1"),
        ({**state, "rest": [[3, 2, 0]]}, "rest of a reader's state must be spans"),
        ({**state, "rest": 7}, "rest of a reader's state must be spans"),
        ({**state, "workers": 2}, "worker 0 of 2, and this is worker 0 of 1.*list of the states of all 2"),
        ([{**state, "workers": 2}], "the state of worker 1 of 2 is missing"),
        ([state, state], "worker 0 of 1 is there twice"),
        ([], "no states to load"),
    ]:
        with pytest.raises(UsageError, match=line):
            batches.load_state_dict(wrong)
    assert batches.state_dict() == state
    with pytest.raises(UsageTypeError, match="takes what state_dict gave"):
        batches.load_state_dict(3)
    wrong_settings: list[tuple[dict[str, Any], str]] = [
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"uneven": "fair"}, "uneven must be"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"bad": 2.0}, "must lie in"),
        ({"queue": True, "uneven": "pad"}, "use uneven='join'"),
        ({"paths": str(tmp_path / "none")}, "no file or folder"),
    ]
    for setting, line in wrong_settings:
        with pytest.raises(UsageError, match=line):
            files(**setting)
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(UsageError, match="the files have no samples"):
        files(empty)
    with pytest.raises(UsageTypeError, match="schema must be a fleet.data.Schema"):
        fleet.data.files(paths, "criteo", 10)  # type: ignore[arg-type]


def test_workers_with_other_files_are_told(tmp_path: Path) -> None:
    paths = write(tmp_path, [50, 50])

    def work(index: int) -> None:
        fleet.data.files(paths[: index + 1], SCHEMA, 10, format=Lines())

    with pytest.raises(UsageError, match="fleet.data.files: data is not the same on all workers: 1 files .* worker 0"):
        ThreadJob(2).run(work)


def test_files_are_known_by_name_and_size(tmp_path: Path, alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever they lie: the folder may be mounted elsewhere, or named from another place."""

    def state(paths: list[str]) -> Any:
        return fleet.data.files(paths, SCHEMA, 10, format=Lines()).state_dict()

    for folder in ("here", "there", "other"):
        (tmp_path / folder).mkdir()
    here, there = write(tmp_path / "here", [30, 40]), write(tmp_path / "there", [30, 40])
    other = write(tmp_path / "other", [40, 30])
    assert state(here) == state(there) != state(other)
    monkeypatch.chdir(tmp_path / "here")
    assert state([Path(one).name for one in here]) == state(here)
    assert state([Path(here[0]).name, there[1]])["data"].startswith("2 files of 200 bytes")


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_large_packed_file_is_read_part_by_part(
    tmp_path: Path, alone: None, monkeypatch: pytest.MonkeyPatch, shuffle: bool
) -> None:
    """Never held as a whole; a position in any part of it goes on there."""
    monkeypatch.setattr(piece_batches, "MOST_BYTES_AT_ONCE", 100)
    monkeypatch.setattr(text, "PIECE_BYTES", 300)
    path = tmp_path / "ids.tsv.gz"
    with gzip.open(path, "wt") as file:
        file.write("".join(f"{row}\n" for row in range(1000)))

    def made() -> Any:
        return fleet.data.files(path, SCHEMA, 13, shuffle=shuffle)

    batches = made()
    whole = [row for batch in batches for row in ids(batch)]
    assert sorted(whole) == list(range(1000))
    assert (whole == list(range(1000))) != shuffle
    for stop in (0, 1, 30, 76, 77):
        batches = made()
        first = [row for batch in islice(batches, stop) for row in ids(batch)]
        again = made()
        again.load_state_dict(batches.state_dict())
        assert first + [row for batch in again for row in ids(batch)] == whole


def test_sizes_of_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert piece_order.block_bytes(100) == 4 << 10
    assert piece_order.block_bytes(256 << 20) == 1 << 20
    assert piece_order.block_bytes(1 << 40) == 8 << 20
    sizes = {"a.tsv": 8, "b.tsv.gz": 10, "c.tsv.gz": 20, "d.tsv": 8, "e.parquet": 20, "f.tsv": 8}
    blocks = [Block(path, 0, 1, size << 20) for path, size in sizes.items()]
    blocks += [Block("rest", 0, 1, 4 << 30)]
    found = [[block.path for block in group] for group in piece_order.grouped(blocks)]
    assert found == [["a.tsv", "b.tsv.gz"], ["c.tsv.gz"], ["d.tsv", "e.parquet", "f.tsv"], ["rest"]]
