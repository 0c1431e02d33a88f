"""A stream of changes is followed to the last bit: what is missing, repeated, reordered or damaged is never applied."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fleet.errors import StreamError, UsageError
from fleet.stream import (
    ChangeBatch,
    DamagedBatchError,
    MissingBatchError,
    RepeatedBatchError,
    StartOverError,
    StreamBase,
    StreamHead,
    TableChanges,
    TableHead,
)
from fleet.stream.batches import pack, unpack
from fleet.stream.sinks import FolderSink, open_sink
from fleet_serve.following.stream import Followed, follow

SHARDS, BATCHES, WIDTH = 2, 6, 3
Rows = dict[int, tuple[float, ...]]


def made(rng: np.random.Generator, shard: int, number: int, stream: str = "one") -> ChangeBatch:
    """A batch of random changes; keys of the two shards differ in their last bit."""
    keys = np.unique(rng.integers(0, 40, 8)) * 2 + shard
    cut = int(rng.integers(0, len(keys)))
    values = rng.standard_normal((cut, WIDTH)).astype(np.float32)
    dense = {("layer/weight", 4 * shard): rng.standard_normal(4).astype(np.float32)} if number % 2 else {}
    return ChangeBatch(
        stream, shard, number, {"ads/of day": TableChanges(keys[:cut], values, keys[cut:])}, dense, 1.5, 2.25, 7, number
    )


def apply(rows: Rows, batch: ChangeBatch) -> None:
    for changes in batch.tables.values():
        rows |= dict(zip(changes.keys.tolist(), map(tuple, changes.values.tolist()), strict=True))
        for key in changes.gone.tolist():
            rows.pop(key, None)


def head(numbers: tuple[int, ...], stream: str = "one") -> str:
    tables = {"ads/of day": TableHead(WIDTH)}
    return StreamHead(stream, SHARDS, tables, {}, 0.5, StreamBase(f"base-{sum(numbers)}", numbers)).to_text()


class Written:
    """A stream in a folder, and what its rows are after each batch of each shard."""

    def __init__(self, folder: Path) -> None:
        self.sink, self.folder = FolderSink(str(folder)), folder
        rng = np.random.default_rng(5)
        self.truth: list[list[Rows]] = [[{}] for _ in range(SHARDS)]
        for shard in range(SHARDS):
            for number in range(1, BATCHES + 1):
                batch = made(rng, shard, number)
                self.sink.put("one", shard, number, pack(batch))
                self.truth[shard].append(dict(self.truth[shard][-1]))
                apply(self.truth[shard][-1], batch)
        self.sink.put_head(head((0,) * SHARDS))

    def file(self, shard: int, number: int) -> Path:
        return self.folder / f"batches/one/shard-{shard:05}/{number:020}"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return Written(tmp_path_factory.mktemp("stream") / "clicks")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet_serve.following.stream.PATIENCE_S", 0.0)


def damage(written: Written, kind: str, rng: random.Random) -> Iterator[tuple[int, int, type[StartOverError]]]:
    """Harm one batch: its shard, its number, the error; what was there comes back afterwards."""
    shard, number = rng.randrange(SHARDS), rng.randrange(1, BATCHES)
    path, other = written.file(shard, number), written.file(shard, number + 1)
    data, later = path.read_bytes(), other.read_bytes()
    error: type[StartOverError] = DamagedBatchError
    if kind == "missing":
        path.unlink()
        error = MissingBatchError
    elif kind == "repeated":
        if number == 1:
            number, path, data = 2, other, later
        path.write_bytes(written.file(shard, number - 1).read_bytes())
        error = RepeatedBatchError
    elif kind == "reordered":
        path.write_bytes(later)
        other.write_bytes(data)
        error = MissingBatchError
    elif kind == "cut":
        path.write_bytes(data[: rng.randrange(len(data))])
    elif kind == "of another shard":
        path.write_bytes(written.file(1 - shard, number).read_bytes())
    else:
        bad = bytearray(data)
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        path.write_bytes(bad)
    yield shard, number, error
    for one, bytes_ in ((written.file(shard, number), data), (other, later)):
        one.write_bytes(bytes_)


def empty() -> list[Rows]:
    return [{} for _ in range(SHARDS)]


KINDS = ("missing", "repeated", "reordered", "flipped", "cut", "of another shard")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("cases", [60, pytest.param(1000, marks=pytest.mark.exhaustive)])
def test_trouble_is_never_applied_and_a_base_heals_it(written: Written, cases: int) -> None:
    for case in range(cases):
        rng = random.Random(case)
        harmed = damage(written, KINDS[case % len(KINDS)], rng)
        shard, number, error = next(harmed)
        followed = Followed(str(written.folder))
        numbers, rows = [0] * SHARDS, empty()

        def take(followed: Followed = followed, numbers: list[int] = numbers, rows: list[Rows] = rows) -> None:
            for batch in followed.batches(numbers, time.monotonic() + 0.001):
                apply(rows[batch.shard], batch)
                numbers[batch.shard] = batch.number

        with pytest.raises(error) as caught:
            while True:
                take()
        assert "take the newest base" in str(caught.value)
        assert numbers[shard] == number - 1, case
        assert [rows[one] == written.truth[one][numbers[one]] for one in range(SHARDS)] == [True] * SHARDS, case
        assert followed.base.numbers == (0, 0)
        past = min(BATCHES, number + 1)  # the base covers the other one of two that changed places
        covered = tuple(past if one == shard else numbers[one] for one in range(SHARDS))
        written.sink.put_head(head(covered))
        base = followed.next_base(numbers, 0.0)
        assert base.folder == str(written.folder / "bases" / f"base-{sum(covered)}")
        numbers[:] = base.numbers
        rows[:] = [dict(written.truth[one][numbers[one]]) for one in range(SHARDS)]
        take()
        assert numbers == [BATCHES] * SHARDS
        assert rows == [truth[-1] for truth in written.truth], case
        next(harmed, None)
        written.sink.put_head(head((0,) * SHARDS))


def test_what_is_late_is_waited_for(written: Written) -> None:
    """A file that is missing or half written for a moment is no gap."""
    followed = Followed(str(written.folder))
    path = written.file(0, 2)
    data = path.read_bytes()
    path.write_bytes(data[:99])
    numbers = [0] * SHARDS
    for batch in followed.batches(numbers, time.monotonic() + 0.02):
        numbers[batch.shard] = batch.number
    assert numbers == [1, BATCHES]
    path.unlink()
    assert list(followed.batches(numbers, time.monotonic() + 0.02)) == []
    path.write_bytes(data)
    assert [batch.number for batch in followed.batches(numbers, time.monotonic() + 0.02)] == [2, 3, 4, 5, 6]


def test_a_batch_is_the_same_after_packing() -> None:
    batch = made(np.random.default_rng(1), 1, 3)
    found = unpack(pack(batch))
    assert (found.stream, found.shard, found.number, found.step, found.whole) == ("one", 1, 3, 7, 3)
    assert (found.oldest, found.newest) == (1.5, 2.25)
    (name, changes), ((where, values),) = next(iter(found.tables.items())), found.dense.items()
    own = batch.tables[name]
    for mine, theirs in ((own.keys, changes.keys), (own.values, changes.values), (own.gone, changes.gone)):
        assert mine.dtype == theirs.dtype
        assert mine.tolist() == theirs.tolist()
    assert where == ("layer/weight", 4)
    assert values.tolist() == batch.dense[where].tolist()
    empty = unpack(pack(ChangeBatch("one", 0, 9, newest=3.0)))
    assert empty.is_empty
    assert (empty.number, empty.newest) == (9, 3.0)


@pytest.mark.parametrize(
    ("stream", "folder"), [("one", "/x"), ("one", "../x"), ("..", "x"), ("../one", "x"), ("one", "")]
)
def test_a_head_that_leads_out_of_its_folder_is_refused(stream: str, folder: str) -> None:
    text = StreamHead(stream, 1, {}, {}, 0.5, StreamBase(folder, (0,))).to_text()
    with pytest.raises(StreamError, match="here is damaged: 1 shards, "):
        StreamHead.from_text(text, "here")
    StreamHead.from_text(text.replace(f'"{stream}"', '"one"').replace(f'"{folder}"', '"x"'), "here")


def test_a_batch_of_a_later_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.stream.batches.FORMAT", "fleet changes 2")
    blob = pack(ChangeBatch("one", 0, 1))
    monkeypatch.undo()
    with pytest.raises(StreamError, match=r"format 'fleet changes 2', known here is .*; update what follows"):
        unpack(blob)


@pytest.mark.parametrize(
    "tensors",
    [
        {"keys/t": np.zeros(2, np.int64), "values/t": np.zeros((2, 1), np.float32), "gone/t": np.zeros(0, np.int64)},
        {"keys/t": np.arange(2), "values/t": np.zeros((1, 1), np.float32), "gone/t": np.zeros(0, np.int64)},
        {"keys/t": np.arange(2), "values/t": np.zeros((2, 1), np.float64), "gone/t": np.zeros(0, np.int64)},
        {"keys/t": np.arange(2), "gone/t": np.zeros(0, np.int64)},
        {"values/t": np.zeros((2, 1), np.float32)},
        {"dense/x/name": np.zeros(2, np.float32)},
        {"rows": np.zeros(2, np.float32)},
    ],
)
def test_what_is_no_batch_is_refused(tensors: dict[str, np.ndarray]) -> None:
    from fleet.checkpoint.files.pieces import encoded

    metadata = {"format": "fleet changes 1", "stream": "one", "oldest": "0", "newest": "0", "mark": ""}
    metadata |= dict.fromkeys(("shard", "number", "step", "whole"), "0")
    parts, _ = encoded(tensors, metadata, with_sum=True)
    with pytest.raises(DamagedBatchError, match="it is no batch of changes"):
        unpack(b"".join(bytes(part) for part in parts))
    with pytest.raises(DamagedBatchError, match="does not begin with its sum"):
        unpack(b"".join(bytes(part) for part in encoded(tensors, metadata)[0]))


def test_where_a_stream_cannot_be(tmp_path: Path, written: Written) -> None:
    with pytest.raises(StreamError, match="no stream of changes in .*; start the job that publishes there"):
        follow(str(tmp_path))
    with pytest.raises(UsageError, match="kafka://x.*cannot lie there; give a folder, or a URL that begins"):
        follow("kafka://x")
    with pytest.raises(UsageError, match="names no folder of this machine"):
        open_sink("file://elsewhere/data")
    assert open_sink(f"file://{tmp_path}").bases == tmp_path / "bases"
    folder = tmp_path / "copy"
    shutil.copytree(written.folder, folder)
    for text, why in (
        ("{", "it is not JSON"),
        ('{"format": "fleet stream 9"}', "update what follows"),
        (head((0, 0)).replace('"num_shards": 2', '"num_shards": 3'), "3 shards"),
        (head((0, 0)).replace(f'"width": {WIDTH}', '"width": "x"'), "'width' must be a whole number"),
    ):
        (folder / "stream.json").write_text(text)
        with pytest.raises(StreamError, match=why):
            follow(str(folder))


@pytest.mark.usefixtures("impatient")
def test_another_stream_in_its_place_is_begun_from_its_base(tmp_path: Path, written: Written) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(written.folder, folder)
    followed = follow(str(folder))
    followed._sink.put_head(head((3, 3), stream="two"))
    with pytest.raises(StartOverError, match="has begun anew, as stream two; take its base"):
        list(followed.batches([BATCHES] * SHARDS, time.monotonic() + 1))
    assert followed.next_base([BATCHES] * SHARDS, 0.0).numbers == (3, 3)
    with pytest.raises(StartOverError, match="has 2 shards, not 3; take its base"):
        next(followed.batches([0, 0, 0], time.monotonic()))
