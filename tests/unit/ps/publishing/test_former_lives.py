"""What a life of a server has begun is gone on with, or done again: followers never stay behind."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest

from fleet.ps.publishing.bases import BaseKeeper, begun
from fleet.ps.publishing.publishing import Publisher
from fleet.stream import ChangeBatch
from fleet.stream.batches import pack
from fleet.stream.sinks import FolderSink
from support.parity.training import joined, served, strategy
from support.processes import wait_until
from support.serving.follower import LIMIT_S, Follower, dense_of, publisher_of

EVERY_S = 0.02


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet_serve.following.stream.PATIENCE_S", 0.05)
    monkeypatch.setattr("fleet.ps.publishing.publishing.LATER_S", 0.05)


def another_life(publisher: Publisher) -> None:
    """As after a kill: only what lies in the place is known."""
    publisher._stream, publisher._keeper, publisher._part_of = "", None, None


def head_of(place: Path) -> str:
    path = place / "stream.json"
    return json.loads(path.read_text())["stream"] if path.exists() else ""


def test_told_again_while_a_base_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The base of before, whose part is written, hides nothing that was changed between."""
    place, held, is_released = tmp_path / "stream", list[BaseKeeper | None](), threading.Event()
    look, begin, put = BaseKeeper.look, BaseKeeper._begin_if_wanted, FolderSink.put

    def put_unless_held(self: FolderSink, stream: str, shard: int, number: int, blob: bytes) -> None:
        if any(keeper is not None and keeper._sink is self for keeper in held):
            raise OSError("down")
        put(self, stream, shard, number, blob)

    def begin_unless_held(keeper: BaseKeeper) -> None:
        if not held or keeper in held or is_released.is_set():
            begin(keeper)

    monkeypatch.setattr(FolderSink, "put", put_unless_held)
    monkeypatch.setattr(BaseKeeper, "_begin_if_wanted", begin_unless_held)
    monkeypatch.setattr(BaseKeeper, "look", lambda one: None if one in held and begun(place / "bases") else look(one))
    with served(1) as (endpoints, services), joined(endpoints, strategy=strategy("sync")) as one:
        one.fleet.publish(place, every_s=EVERY_S)
        one.train(0, 2)
        follower = Follower(place)
        follower.until(lambda: follower.equals(services), "the first steps")
        one.fleet.save_persistables(tmp_path / "saved")
        held.append(publisher_of(services[0])._keeper)
        one.fleet.load_model(tmp_path / "saved")
        wait_until(lambda: bool(list(place.glob("bases/.base*/shard-00000.*"))), LIMIT_S, "a part of the base")
        one.train(2, 6)
        one.fleet.publish(place, every_s=EVERY_S * 2)
        wait_until(lambda: publisher_of(services[0]).num_batches > 0, LIMIT_S, "a batch behind the gap")
        follower = Follower(place)  # where the base of before is there, it takes that
        is_released.set()
        follower.until(lambda: follower.equals(services), "all that was changed")
        one.fleet.publish(None)
        one.train(6, 8)
        one.fleet.publish(place, every_s=EVERY_S)
        follower.until(lambda: follower.equals(services), "what was changed while nothing was published")


def test_a_life_that_begins_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    span, failures = FolderSink.span, [OSError(116, "Stale file handle")]

    def fails_once(self: FolderSink, stream: str, shard: int) -> tuple[int, int]:
        if failures:
            raise failures.pop()
        return span(self, stream, shard)

    monkeypatch.setattr(FolderSink, "span", fails_once)
    with served(1) as (endpoints, services), joined(endpoints) as one:
        one.fleet.publish(tmp_path, every_s=EVERY_S)
        one.train(0, 2)
        follower = Follower(tmp_path)
        follower.until(lambda: follower.equals(services), "the first steps")
        assert publisher_of(services[0]).num_failures == 1


def test_killed_while_a_base_is_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are gone then, and nothing is announced."""
    with served(1) as (others, _), joined(others) as former:
        former.fleet.publish(tmp_path / "former", every_s=EVERY_S)
        former.train(0, 1)
        Follower(tmp_path / "former")
    (tmp_path / "former" / "stream.json").rename(tmp_path / "stream.json")
    before = head_of(tmp_path)
    kills = ["parts", "head"]
    commit, put_head = BaseKeeper._commit, FolderSink.put_head
    with served(2) as (endpoints, services), joined(endpoints, strategy=strategy("async")) as one:

        def killed(self: BaseKeeper, writing: Path) -> None:
            if kills and kills[0] == "parts":
                kills.pop(0)
                for part in writing.glob("shard-*"):
                    part.unlink()
                another_life(publisher_of(services[0]))
            else:
                commit(self, writing)

        def lost(self: FolderSink, text: str) -> None:
            if kills:
                kills.pop(0)
                another_life(publisher_of(services[0]))
            else:
                put_head(self, text)

        monkeypatch.setattr(BaseKeeper, "_commit", killed)
        monkeypatch.setattr(FolderSink, "put_head", lost)
        one.fleet.publish(tmp_path, every_s=EVERY_S)
        one.train(0, 2)
        wait_until(lambda: head_of(tmp_path) != before, 5.0, "a base to be announced")
        assert not kills
        follower = Follower(tmp_path)
        follower.until(lambda: follower.equals(services), "the first steps")


def test_large_dense_parameters_are_published_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(1) as (endpoints, services):
        with joined(endpoints, strategy=strategy("sync")) as one:
            one.fleet.publish(tmp_path, every_s=EVERY_S)
            one.train(0, 2)
            follower = Follower(tmp_path)
            follower.until(lambda: follower.equals(services), "the first steps")
            monkeypatch.setattr("fleet.ps.publishing.changes.DENSE_BYTES_PER_S", 1)
            one.train(2, 3)
            follower.until(lambda: follower.equals(services), "another step; the next is due in a minute")
            one.train(3, 4)
        truth = {name: np.array(values) for name, values in dense_of(services).items()}
        services[0].close()
    follower.step()
    assert all(np.array_equal(follower.dense[name], values) for name, values in truth.items())


def test_two_jobs_in_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every server of the first stops, and leaves the bases of the second alone."""
    monkeypatch.setattr("fleet.ps.publishing.publishing.IDLE_S", 0.05)
    monkeypatch.setattr("fleet.ps.publishing.bases.ASKED_EVERY_S", 0.0)
    with served(2) as (endpoints, first), joined(endpoints, strategy=strategy("async")) as one:
        one.fleet.publish(tmp_path, every_s=EVERY_S)
        one.train(0, 2)
        Follower(tmp_path)
        wait_until(lambda: all(publisher_of(server)._is_announced for server in first), LIMIT_S, "all to see it")
        with served(2) as (endpoints, second), joined(endpoints, strategy=strategy("async")) as other:
            other.fleet.publish(tmp_path, every_s=EVERY_S)
            other.train(0, 2)
            wait_until(lambda: all(publisher_of(server)._is_lost for server in first), 5.0, "the first job to stop")
            one.train(2, 4)
            other.train(2, 4)
            bases = tmp_path / "bases"
            wait_until(lambda: not list(bases.glob("wanted-*")), LIMIT_S, "the first base")
            (bases / "wanted-by-somebody").touch()
            wait_until(lambda: not list(bases.glob("wanted-*")), LIMIT_S, "a base that is asked for")
            follower = Follower(tmp_path)
            follower.until(lambda: follower.equals(second), "what the second job has")
            assert follower.stream.head.stream == publisher_of(second[1])._stream
            batches, own = tmp_path / "batches", tmp_path / "batches" / head_of(tmp_path)
            wait_until(lambda: list(batches.iterdir()) == [own], LIMIT_S, "the batches of the first job to be removed")


def test_a_place_that_hangs_holds_up_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.ps.publishing.publishing.LAST_S", 0.1)
    put, hangs, goes_on = FolderSink.put, threading.Event(), threading.Event()

    def put_late(self: FolderSink, stream: str, shard: int, number: int, blob: bytes) -> None:
        if self.home.name == "hung":
            hangs.set()
            assert goes_on.wait(LIMIT_S)
        put(self, stream, shard, number, blob)

    monkeypatch.setattr(FolderSink, "put", put_late)
    try:
        with served(1) as (endpoints, services), joined(endpoints) as one:
            one.fleet.publish(tmp_path / "hung", every_s=EVERY_S)
            one.train(0, 1)
            assert hangs.wait(LIMIT_S)
            former = publisher_of(services[0])
            told = threading.Thread(target=one.fleet.publish, args=(tmp_path / "other",))
            calls = [told, threading.Thread(target=services[0].close)]
            for call in calls:
                call.start()
                call.join(5.0)
            assert not any(call.is_alive() for call in calls)
            assert former._thread.is_alive()
    finally:
        goes_on.set()
    former._thread.join(LIMIT_S)
    assert not former._thread.is_alive()


def test_a_number_is_put_once(tmp_path: Path) -> None:
    """Another life of the server, which it has followed or which has followed it, may have given the number."""
    with served(1) as (endpoints, services), joined(endpoints) as one:
        one.fleet.publish(tmp_path, every_s=EVERY_S)
        one.train(0, 2)
        follower = Follower(tmp_path)
        follower.until(lambda: follower.equals(services), "the first steps")
        sink, stream = FolderSink(str(tmp_path)), follower.stream.head.stream
        _, at = sink.span(stream, 0)
        stranger = pack(ChangeBatch(stream, 0, at + 1, mark="of another life", whole=at + 1))
        sink.put(stream, 0, at + 1, stranger)
        sink.put(stream, 0, at + 1, stranger)
        one.train(2, 6)
        follower.until(lambda: follower.equals(services), "what comes behind a base")
        assert sink.get(stream, 0, at + 1) == stranger
        assert follower.num_bases == 2
        with pytest.raises(FileExistsError):
            sink.put(stream, 0, at + 1, b"another")
        assert not list(tmp_path.glob("batches/*/*/.*"))


def test_a_batch_that_a_place_has_lost_is_not_taken_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next life gives its number again, to more changes: who has taken the lost one takes a base."""
    put, is_armed, goes_on, numbers = FolderSink.put, threading.Event(), threading.Event(), list[int]()
    with served(1) as (endpoints, services), joined(endpoints, strategy=strategy("sync")) as one:

        def put_and_lose(self: FolderSink, stream: str, shard: int, number: int, blob: bytes) -> None:
            put(self, stream, shard, number, blob)
            if is_armed.is_set():
                numbers.append(number)
            if len(numbers) == 1:
                follower.until(lambda: follower.numbers == [number], "what will be lost")
                self._file(stream, shard, number).unlink()
                assert goes_on.wait(LIMIT_S)
                another_life(publisher_of(services[0]))
                raise OSError("lost")

        monkeypatch.setattr(FolderSink, "put", put_and_lose)
        one.fleet.publish(tmp_path, every_s=EVERY_S)
        one.train(0, 2)
        follower = Follower(tmp_path)
        follower.until(lambda: follower.equals(services), "the first steps")
        is_armed.set()
        one.train(2, 3)
        wait_until(lambda: len(numbers) == 1, LIMIT_S, "the batch that will be lost")
        one.train(3, 5)
        goes_on.set()
        wait_until(lambda: len(numbers) > 1, LIMIT_S, "a batch of its number")
        assert numbers[0] == numbers[1]
        one.train(5, 6)
        follower.until(lambda: follower.equals(services), "what has changed since")
        assert follower.num_bases == 2
