"""One contract for all places of a stream of changes: a folder, real Redis, real NATS JetStream."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from fleet.errors import UsageError
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
from fleet.stream.batches import pack
from fleet.stream.sinks import Sink, open_sink
from fleet_serve.following.stream import follow
from support.data.brokers import NatsServer, RedisServer, nats_server
from support.parity.training import joined, served, strategy
from support.processes import wait_until
from support.serving.follower import LIMIT_S, Follower, publisher_of

pytestmark = pytest.mark.timeout(180)
KINDS = ["folder", "redis", "nats"]
Place = tuple[str, "RedisServer | NatsServer | None"]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet_serve.following.stream.PATIENCE_S", 0.05)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A URL, and the broker behind it."""
    if request.param == "folder":
        yield str(tmp_path / "stream"), None
    elif request.param == "redis":
        server = RedisServer(tmp_path / "redis")
        try:
            yield f"redis://127.0.0.1:{server.port}/clicks?bases={tmp_path}/stream", server
        finally:
            server.kill()
    else:
        with nats_server(tmp_path / "nats") as broker:
            yield f"{broker.url('clicks')}?bases={tmp_path}/stream", broker


@pytest.fixture
def sink(place: Place) -> Iterator[Sink]:
    one = open_sink(place[0])
    yield one
    one.close()


def batch(number: int, stream: str = "one", shard: int = 0, size: int = 4) -> bytes:
    keys = np.arange(size)
    changes = TableChanges(keys, np.full((size, 2), number, np.float32), np.zeros(0, np.int64))
    return pack(ChangeBatch(stream, shard, number, {"ads": changes}, whole=number, mark=str(number)))


def head(number: int, stream: str = "one") -> str:
    return StreamHead(stream, 1, {"ads": TableHead(2)}, {}, 0.5, StreamBase("base-000001", (number,))).to_text()


def test_a_batch_is_put_once_whole_and_until_it_is_dropped(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet_tools.sinks.redis_store.RedisStore.most_bytes", 1 << 20)  # NATS has such a limit itself
    assert (sink.head(), sink.get("one", 0, 1), sink.span("one", 0)) == (None, None, (0, 0))
    large = 1_700_000_000_123
    for number, size in ((1, 4), (2, 400_000), (large, 4)):
        blob = batch(number, size=size)
        sink.put("one", 0, number, blob)
        sink.put("one", 0, number, blob)  # the answer was lost
        with pytest.raises(FileExistsError):
            sink.put("one", 0, number, batch(number, "other", size=size))
        assert sink.get("one", 0, number) == blob
    sink.put("one", 1, 7, b"")
    sink.put("two", 0, 5, batch(5, "two", size=400_000))
    assert (sink.span("one", 0), sink.span("one", 1), sink.span("two", 0)) == ((1, large), (7, 7), (5, 5))
    assert sink.get("one", 1, 7) == b""
    sink.drop("one", 0, large)
    assert (sink.span("one", 0), sink.get("one", 0, 2)) == ((large, large), None)
    sink.drop_others("one")
    assert (sink.span("two", 0), sink.get("two", 0, 5), sink.span("one", 1)) == ((0, 0), None, (7, 7))
    for text in ("{}", head(3)):
        sink.put_head(text)
        assert sink.head() == text.encode()


def flipped(blob: bytes) -> bytes:
    return blob[:-3] + bytes([blob[-3] ^ 1]) + blob[-2:]


WRONG: dict[str, tuple[list[tuple[int, bytes]], type[StartOverError]]] = {
    "a gap": ([(4, batch(4))], MissingBatchError),
    "a repetition": ([(3, batch(2))], RepeatedBatchError),
    "another order": ([(3, batch(4)), (4, batch(3))], MissingBatchError),
    "damage": ([(3, flipped(batch(3)))], DamagedBatchError),
    "half of one": ([(3, batch(3)[:-40])], DamagedBatchError),
    "another shard's": ([(3, batch(3, shard=1))], DamagedBatchError),
    "another stream's": ([(3, batch(3, "two"))], StartOverError),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_refused_and_the_next_base_heals_it(what: str, place: Place, sink: Sink) -> None:
    sink.put_head(head(0))
    for number in (1, 2):
        sink.put("one", 0, number, batch(number))
    followed = follow(place[0])
    numbers = [0]
    for one in followed.batches(numbers, time.monotonic()):
        numbers[0] = one.number
    assert numbers == [2]
    put, error = WRONG[what]
    for number, blob in put:
        sink.put("one", 0, number, blob)
    with pytest.raises(error):
        for one in followed.batches(numbers, time.monotonic() + LIMIT_S):
            numbers[0] = one.number
    assert numbers == [2]
    sink.put_head(head(8))
    sink.put("one", 0, 9, batch(9))
    assert followed.next_base(numbers, LIMIT_S).numbers == (8,)
    assert [one.number for one in followed.batches([8], time.monotonic())] == [9]
    followed.close()


def test_who_waits_is_woken_up(place: Place, sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet_serve.following.notices.FAR_S", LIMIT_S)
    sink.put_head(head(0))
    sink.put("one", 0, 1, batch(1))
    followed, began = follow(place[0]), time.monotonic()
    found = followed.batches([0], began + 10 * LIMIT_S)
    for number in range(1, 5):
        assert next(found).number == number
        if number > 1:
            assert time.monotonic() - began < LIMIT_S / 2
        sink.put("one", 0, number + 1, batch(number + 1))
    followed.close()


def stopped(broker: RedisServer | NatsServer) -> None:
    broker.process.send_signal(signal.SIGSTOP)


def killed(broker: RedisServer | NatsServer) -> None:
    broker.kill()


@pytest.mark.parametrize("place", ["redis", "nats"], indirect=True)
@pytest.mark.parametrize("how", [stopped, killed])
def test_a_broker_that_is_slow_or_down_holds_up_no_training(
    how: Callable[[RedisServer | NatsServer], None], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes meanwhile come when it is back, without a base; how far those who follow are behind is a figure."""
    for module in ("sinks.nats_store", "sinks.redis_store", "streams.nats_client"):
        monkeypatch.setattr(f"fleet_tools.{module}.ANSWER_S", 0.2)
    monkeypatch.setattr("fleet.ps.publishing.publishing.LATER_S", 0.1)
    url, broker = place
    assert broker is not None
    with served(2) as (endpoints, services), joined(endpoints, strategy=strategy("async")) as one:
        one.fleet.publish(url, every_s=0.02)
        one.train(0, 2)
        follower = Follower(url)
        follower.until(lambda: follower.equals(services), "the first steps")
        how(broker)
        publishers = [publisher_of(service) for service in services]
        one.train(2, 6)
        one.fleet.flush()
        wait_until(lambda: all(p.num_failures and p.lag_s > 0.3 for p in publishers), LIMIT_S, "failures")
        if how is killed:
            broker.start()
        else:
            broker.process.send_signal(signal.SIGCONT)

        def has_all() -> bool:
            return follower.equals(services)

        deadline = time.monotonic() + LIMIT_S
        while not has_all():
            try:
                follower.step()
            except OSError:
                assert time.monotonic() < deadline
        assert follower.num_bases == 1
        follower.stream.close()


def test_a_broker_that_is_full_is_told_and_goes_on(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis")
    sink = open_sink(f"redis://127.0.0.1:{server.port}/clicks?bases={tmp_path}")
    try:
        sink.put("one", 0, 1, batch(1))
        server.do("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(OSError, match="Redis refuses: .*maxmemory"):
            sink.put("one", 0, 2, batch(2))
        server.do("CONFIG", "SET", "maxmemory", "0")
        sink.put("one", 0, 2, batch(2))
        assert sink.span("one", 0) == (1, 2)
    finally:
        sink.close()
        server.kill()
    with nats_server(tmp_path / "nats") as broker:
        broker.make("fleet-clicks", ["fleet.clicks.>"], max_bytes=4096, discard="new", allow_direct=True)
        sink = open_sink(f"{broker.url('clicks')}?bases={tmp_path}")
        sink.put("one", 0, 1, batch(1))
        with pytest.raises(OSError, match="NATS refused: maximum bytes exceeded"):
            sink.put("one", 0, 2, batch(2, size=1000))
        sink.drop("one", 0, 2)
        sink.put("one", 0, 2, batch(2))
        assert sink.span("one", 0) == (2, 2)
        sink.close()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis://127.0.0.1:1/clicks", "says no folder for bases, which servers and followers share"),
        ("nats://127.0.0.1:1/clicks?bases=data", "says no folder for bases"),
        ("redis://127.0.0.1:1/cl.icks?bases=/data", "is no name for a stream"),
        ("redis://127.0.0.1:1/?bases=/data", "a URL of a stream is redis://HOST:PORT/NAME"),
        ("redis://127.0.0.1:1/clicks?bases=/data&db=x", "is no number of a database of Redis"),
        ("nats://me:secret@127.0.0.1:1/clicks?bases=/data&ack=1", "^nats://127.0.0.1:1/clicks has the option 'ack'"),
    ],
)
def test_urls_that_lack_something_are_refused(url: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        open_sink(url)


def test_a_job_cannot_publish_to_a_broker_that_is_not_there(tmp_path: Path) -> None:
    with served(1) as (endpoints, _), joined(endpoints) as one:
        with pytest.raises(
            UsageError, match=r"cannot publish to 'redis://127.0.0.1:1/clicks': no Redis server answers"
        ):
            one.fleet.publish(f"redis://me:secret@127.0.0.1:1/clicks?bases={tmp_path}")
