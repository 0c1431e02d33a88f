"""A served model follows its stream: what is read is always one moment of one base, and never half of anything."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fleet.stream import TableChanges
from fleet_serve.doors.answers import Answers
from fleet_serve.following import follower as following
from fleet_serve.following.follower import Follower
from fleet_serve.rows.model import ServedModel, load_model
from support.serving.served_models import WrittenStream

WIDTHS = {"ads": 2, "users": 5}
KEYS = np.arange(0, 200, dtype=np.int64)
NO_KEYS = np.empty(0, np.int64)
LIMIT_S = 60.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet_serve.following.stream.PATIENCE_S", 0.15)
    monkeypatch.setattr(following, "LOOK_S", 0.02)
    monkeypatch.setattr(following, "AGAIN_S", (0.01,))


@pytest.fixture
def stream(tmp_path: Path) -> WrittenStream:
    """Two shards: even keys and odd ones."""
    written = WrittenStream(tmp_path / "stream", WIDTHS)
    for shard in range(2):
        written.change(shard, 1.0, KEYS[shard::2])
    written.base()
    return written


@pytest.fixture
def replica(stream: WrittenStream, tmp_path: Path) -> Iterator[tuple[Answers, Follower]]:
    answers = Answers(1 << 30)
    one = Follower(
        str(stream.folder), lambda folder, numbers: load_model(folder, tmp_path / "cache", numbers=numbers), answers
    )
    one.start()
    yield answers, one
    one.stop()


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline, f"waited {LIMIT_S:g} s until {what}"
        time.sleep(0.005)


def has(answers: Answers, numbers: list[int]) -> Callable[[], bool]:
    return lambda: answers.has_model and list(answers.model().version.numbers) == numbers


def has_read(follower: Follower, shard: int, number: int) -> bool:
    side = follower._side
    return side is not None and side.numbers[shard] >= number


def check(answers: Answers, stream: WrittenStream) -> None:
    """Row by row."""
    keys = np.arange(-5, 300, dtype=np.int64)
    found, _ = answers.lookup("test", [(table, keys) for table in WIDTHS])
    for one in found:
        rows = stream.rows[one.table]
        expected = [rows.get(key, np.zeros(WIDTHS[one.table], np.float32)) for key in keys.tolist()]
        assert np.array_equal(one.rows, np.array(expected))
        assert one.num_unseen == sum(key not in rows for key in keys.tolist())


def test_changes_come_and_a_newer_base_takes_the_place_of_many(
    stream: WrittenStream, replica: tuple[Answers, Follower]
) -> None:
    answers, follower = replica
    until(has(answers, [1, 1]), "the base is loaded")
    stream.change(0, 2.0, KEYS[0:8:2], KEYS[10:20:2])
    until(has(answers, [2, 1]), "a batch is there")
    check(answers, stream)
    before = answers.model()
    for value in range(3, 9):  # so many that a base is worth it
        stream.change(value % 2, float(value), KEYS[value % 2 : 60 : 2])
    until(has(answers, [5, 4]), "all batches are there")
    assert answers.model() is before
    stream.base()
    until(lambda: answers.model() is not before, "the newer base answers")
    check(answers, stream)
    until(lambda: not any(path.exists() for path in before.files), "its files are gone")
    check(answers, stream)
    assert sum(map(answers.model().num_changed, WIDTHS)) == 0
    state = follower.state
    assert (state.stream, state.why_stale, state.num_bases) == ("one", "", 2)
    assert 0 <= state.lag_s < LIMIT_S


def test_a_reader_sees_moments_alone_while_batches_and_bases_come(
    stream: WrittenStream, replica: tuple[Answers, Follower]
) -> None:
    """Every batch writes one value into all keys of its shard, in both tables: two values would be half a change."""
    answers, follower = replica
    until(has(answers, [1, 1]), "the base is loaded")
    over, wrong, seen = threading.Event(), [], set()

    def read() -> None:
        while not over.is_set():
            (ads, users), version = answers.lookup("test", [("ads", KEYS), ("users", KEYS)])
            for shard in range(2):
                values = {*ads.rows[shard::2].ravel().tolist(), *users.rows[shard::2].ravel().tolist()}
                if values != {float(version.numbers[shard])}:
                    wrong.append((version, values))
            seen.add(version)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(2, 30):
        for shard in range(2):
            keys = KEYS[shard::2]
            parts = np.array_split(keys, 2 if number % 5 == 0 else 1)  # every fifth moment is cut into two batches
            for part in parts[:-1]:
                stream.change(shard, float(stream.numbers[shard] + 2), part, whole=False)
            if len(parts) > 1:
                is_read = partial(has_read, follower, shard, stream.numbers[shard])
                until(is_read, "half of a moment is read")
                assert answers.model().version.numbers[shard] < stream.numbers[shard]
            stream.change(shard, float(stream.numbers[shard] + 1), parts[-1])
        if number % 9 == 0:
            stream.base()
    until(has(answers, stream.numbers), "all batches are there")
    over.set()
    reader.join()
    assert not wrong, wrong[0]
    check(answers, stream)


@pytest.mark.parametrize("kind", ["gap", "damaged", "another stream", "another table", "cannot be applied"])
def test_what_does_not_lead_on_is_healed_by_a_base_and_nothing_of_it_served(
    stream: WrittenStream, replica: tuple[Answers, Follower], kind: str
) -> None:
    answers, follower = replica
    until(has(answers, [1, 1]), "the base is loaded")
    stream.change(0, 2.0, KEYS[0:40:2])
    until(has(answers, [2, 1]), "a batch is there")
    before = answers.model()
    if kind == "gap":
        stream.numbers[0] += 1
        stream.change(0, 4.0, KEYS[0:40:2])
    elif kind == "damaged":
        stream.change(0, 3.0, KEYS[0:40:2])
        path = next(stream.folder.glob("batches/one/shard-00000/*3"))
        path.write_bytes(path.read_bytes()[:-1])
    elif kind == "another stream":
        other = WrittenStream(stream.folder, WIDTHS, shards=3, name="two")
        other.rows = {"ads": {5: np.ones(2, np.float32)}, "users": {}}
        other.base()
        stream = other
    elif kind == "cannot be applied":
        before.dense["bias"] = np.zeros(3, np.float32)
        stream.put(0, {}, {("bias", 0): np.ones(1, np.float32), ("bias", 2): np.ones(2, np.float32)})
    else:
        stream.put(0, {"people": TableChanges(KEYS, np.zeros((len(KEYS), 1), np.float32), NO_KEYS)})
    if kind != "another stream":
        until(lambda: bool(follower.state.why_stale), "it is told")
        assert "take the newest base" in follower.state.why_stale
        found, version = answers.lookup("test", [("ads", KEYS[:4])])
        assert found[0].rows[:, 0].tolist() == [2, 1, 2, 1]  # the old goes on answering
        assert list(version.numbers) == [2, 1]
        until(lambda: any(stream.sink.bases.glob("wanted-by-*")), "the job is asked for a base")
        stream.base()
    until(lambda: answers.model() is not before, "the base answers")
    check(answers, stream)
    assert before.dense.get("bias", np.zeros(1)).tolist() in ([0], [0, 0, 0])
    assert follower.state.why_stale == ""
    stream.change(0, 9.0, KEYS[0:10:2])
    until(has(answers, stream.numbers), "it goes on")
    check(answers, stream)


def test_a_stream_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    answers = Answers(1 << 30)
    follower = Follower(
        str(tmp_path / "later"), lambda folder, numbers: load_model(folder, tmp_path / "c", numbers=numbers), answers
    )
    follower.start()
    try:
        until(lambda: follower.state.num_failures > 0, "it has looked")
        assert "no stream of changes in" in follower.state.why_stale
        written = WrittenStream(tmp_path / "later", WIDTHS, shards=1)
        written.change(0, 1.0, KEYS)
        written.base()
        until(has(answers, [1]), "the base is loaded")
        check(answers, written)
    finally:
        follower.stop()


@pytest.mark.parametrize("is_first", [True, False])
def test_a_base_that_cannot_be_read_is_tried_again_after_a_pause(
    stream: WrittenStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    monkeypatch.setattr(following, "AGAIN_S", (0.05, LIMIT_S))
    answers, tries = Answers(1 << 30), []

    def load(folder: Path, numbers: Iterable[int]) -> ServedModel:
        if is_first or answers.has_model:
            tries.append(folder)
            raise OSError(5, "Input/output error")
        return load_model(folder, tmp_path / "cache", numbers=numbers)

    follower = Follower(str(stream.folder), load, answers)
    follower.start()
    try:
        if not is_first:
            until(has(answers, [1, 1]), "the base is loaded")
            stream.change(0, 2.0, KEYS[::2])
            stream.base()
        until(lambda: follower.state.num_failures == 2, "it has failed twice")
        time.sleep(0.2)  # ten looks
        assert (len(tries), follower.state.num_failures) == (2, 2)
        if is_first:
            assert "Input/output error" in answers_of(follower).why_not_ready()
        else:
            assert follower.state.why_stale == ""
    finally:
        follower.stop()


def answers_of(follower: Follower) -> Answers:
    return Answers(1 << 30, state=lambda: follower.state)


def test_it_ends_though_its_folder_does_not_answer(
    stream: WrittenStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "LAST_S", 0.1)
    answers = Answers(1 << 30)
    follower = Follower(
        str(stream.folder), lambda folder, numbers: load_model(folder, tmp_path / "c", numbers=numbers), answers
    )
    follower.stop()  # one that was never started
    follower = Follower(
        str(stream.folder), lambda folder, numbers: load_model(folder, tmp_path / "c", numbers=numbers), answers
    )
    follower.start()
    until(has(answers, [1, 1]), "the base is loaded")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.rename(stream.sink._file(stream.name, 0, 2))  # to read it waits for whoever writes
    time.sleep(0.1)  # several looks
    ended = threading.Thread(target=follower.stop)
    ended.start()
    ended.join(10.0)
    has_ended = not ended.is_alive()
    release = os.open(stream.sink._file(stream.name, 0, 2), os.O_RDWR)
    stream.sink._file(stream.name, 0, 2).unlink()
    os.close(release)
    ended.join()
    follower._thread.join(LIMIT_S)
    assert has_ended
