"""fleet.data.files("nats://..."): streams of a real server, read by one worker."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import fleet
from fleet._lazy import tool
from fleet.data import Feed, Number, Schema
from fleet.data.reading.feed_shard import FeedShard
from fleet.data.streams.contract import StreamRecord
from fleet.errors import CommunicationError, UsageError
from fleet.observe.metrics.registry import registry
from fleet.ps.worker.life.progress import ScriptProgress
from fleet_tools.streams.dead_letters import DeadLetters
from support.data.brokers import KafkaCluster, NatsServer, nats_server
from support.serving.readers import ThreadJob

pytestmark = pytest.mark.timeout(60)

SCHEMA = Schema(
    categories=[fleet.data.Category("id", hash=False)], numbers=[Number("at", dtype="float64")], columns=["id", "at"]
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
def alone() -> Iterator[None]:
    fleet.init()
    yield
    fleet.shutdown()


def ids(batches: Any) -> list[int]:
    return [int(key) for batch in batches for key in batch.ids[:, 0]]


def put(server: NatsServer, name: str, rows: range) -> None:
    """Even rows to subject `name.0`, odd ones to `name.1`."""
    server.publish((f"{name}.{row % 2}", b"%d\t0" % row) for row in rows)


def test_what_is_there_is_read_and_then_what_has_come(server: NatsServer, alone: None) -> None:
    server.make("first", ["first.0", "first.1"])
    put(server, "first", range(1000))
    batches = fleet.data.files(server.url("first"), SCHEMA, 64)
    found = ids(batches)
    assert sorted(found) == list(range(1000))
    assert found == [*range(0, 1000, 2), *range(1, 1000, 2)], "a partition has its order"
    assert ids(batches) == []
    put(server, "first", range(1000, 1010))
    assert sorted(ids(batches)) == list(range(1000, 1010)), "another loop reads what has come since"


@pytest.fixture(scope="module")
def cluster() -> KafkaCluster:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    return KafkaCluster()


def test_topics_of_kafka_are_read_alike(cluster: KafkaCluster, alone: None, monkeypatch: Any) -> None:
    cluster.publish("clicks", ((row % 4, b"%d\t0" % row) for row in range(6000)))
    batches = fleet.data.files(cluster.url("clicks"), SCHEMA, 64)
    found = ids(islice(batches, 50))
    state = json.loads(json.dumps(batches.state_dict()))
    found += ids(batches)
    assert sorted(found) == list(range(6000))
    again = fleet.data.files(cluster.url("clicks"), SCHEMA, 64)
    again.load_state_dict(state)
    assert ids(again) == found[50 * 64 :], "the same in the same order"
    beyond = {**state, "positions": dict.fromkeys(state["positions"], 9999), "chunks": []}
    again.load_state_dict(beyond)
    with pytest.raises(UsageError, match="ends at 1,500 and this position at 9,999"):
        ids(again)
    with monkeypatch.context() as patch:
        patch.setattr("fleet_tools.streams.kafka_stream.MOST_BYTES_AT_ONCE", 200)  # partitions are paused
        assert sorted(ids(fleet.data.files(cluster.url("clicks"), SCHEMA, 64))) == list(range(6000))
    with pytest.raises(UsageError, match="the broker has no topic 'none'"):
        fleet.data.files(cluster.url("none"), SCHEMA, 64)
    with pytest.raises(UsageError, match="are settings of librdkafka"):
        fleet.data.files(cluster.url("clicks") + "?no.such=1", SCHEMA, 64)


def test_any_number_of_workers_goes_on(server: NatsServer) -> None:
    """2 -> 3 -> 1 workers, shuffled; records come in between."""
    subjects = [f"moved.{number}" for number in range(4)]
    server.make("moved", subjects)
    server.publish((subjects[row % 4], b"%d\t0" % row) for row in range(800))

    def run(num_workers: int, stop_after: int | None, states: list[Any] | None) -> tuple[list[int], list[Any]]:
        def work(_: int) -> tuple[list[int], Any]:
            batches = fleet.data.files(server.url("moved"), SCHEMA, 7, shuffle=True)
            if states is not None:
                batches.load_state_dict(json.loads(json.dumps(states)))
            rows = ids(islice(batches, stop_after))
            return rows, batches.state_dict()

        found = ThreadJob(num_workers).run(work)
        return [row for rows, _ in found for row in rows], [state for _, state in found]

    first, states = run(2, 12, None)
    server.publish((subjects[row % 4], b"%d\t0" % row) for row in range(800, 900))
    second, states = run(3, 7, states)
    rest, _ = run(1, None, states)
    assert sorted(first + second + rest) == list(range(900))
    with pytest.raises(UsageError, match="4 partitions for 5 workers"):
        run(5, None, None)


def test_partitions_that_are_added_are_nobodys_until_the_states_of_all_are_joined(server: NatsServer) -> None:
    server.make("added", ["added.1", "added.3"])
    server.publish((f"added.{1 + row % 2 * 2}", b"%d\t0" % row) for row in range(200))

    def run(states: list[Any] | None, *, is_own: bool) -> tuple[list[int], list[Any]]:
        def work(index: int) -> tuple[list[int], Any]:
            batches = fleet.data.files(server.url("added"), SCHEMA, 10)
            if states is not None:
                batches.load_state_dict(json.loads(json.dumps(states[index] if is_own else states)))
            return ids(batches), batches.state_dict()

        found = ThreadJob(2).run(work)
        return [row for rows, _ in found for row in rows], [state for _, state in found]

    first, states = run(None, is_own=True)
    assert sorted(first) == list(range(200))
    server.do("update_stream", name="added", subjects=["added.0", "added.1", "added.3"])
    server.publish((f"added.{row % 4}", b"%d\t0" % row) for row in (200, 201, 203))
    second, states = run(states, is_own=True)
    assert sorted(second) == [201, 203]
    third, more = run(states, is_own=False)
    assert third == [200]
    with pytest.raises(UsageError, match="different lists of partitions.*; load states that were saved together"):
        run([states[0], more[1]], is_own=False)


def test_a_chunk_that_ends_behind_its_last_record_is_read_again(server: NatsServer, alone: None) -> None:
    server.make("behind", ["behind.0", "behind.1"])
    put(server, "behind", range(201))  # the last one is of the other subject
    batches = fleet.data.files(server.url("behind"), SCHEMA, 10)
    found = ids(islice(batches, 15))
    state = batches.state_dict()
    assert [one[2] for one in state["chunks"]] == [202]
    again = fleet.data.files(server.url("behind"), SCHEMA, 10)
    again.load_state_dict(json.loads(json.dumps(state)))
    assert sorted(found + ids(again)) == list(range(201))


def test_ends_are_kept_to(server: NatsServer, alone: None) -> None:
    server.make("ends", ["ends.0", "ends.1"])
    put(server, "ends", range(100))
    until = time.time()
    batches = fleet.data.files(server.url("ends"), SCHEMA, 8, follow=Feed(most=30, until=until + 3600))
    state = batches.state_dict()
    assert [len(ids(islice(batches, 2))), len(ids(batches)), len(ids(batches))] == [16, 14, 30]
    batches.load_state_dict(state)
    assert len(ids(batches)) == 30
    while time.time() < until + 0.1:
        time.sleep(0.01)
    put(server, "ends", range(100, 110))
    batches = fleet.data.files(server.url("ends"), SCHEMA, 8, follow=Feed(until=until + 0.05))
    assert sorted(ids(batches)) == list(range(100)), "without those that came later"


def test_a_position_that_goes_with_a_push_has_what_its_batch_was_made_of(
    server: NatsServer, alone: None, tmp_path: Path
) -> None:
    """The batch is made again, though more has come that would have been before it."""
    server.make("made", ["made.0", "made.1"])
    reader = fleet.data.files(server.url("made"), SCHEMA, 10, follow=True)
    assert isinstance(reader, FeedShard)
    progress = ScriptProgress(tmp_path)
    place = progress.add(reader)
    batches = place.watched(iter(reader))
    server.publish(("made.0", b"%d\t0" % row) for row in range(15))
    assert ids(islice(batches, 1)) == list(range(10))
    progress.capture(0, 0, is_new=True)
    plain = reader.state_dict()
    more = threading.Timer(0.3, server.publish, [[("made.0", b"%d\t0" % row) for row in range(20, 28)]])
    more.start()  # while the reader waits for another five
    assert ids(islice(batches, 1)) == [*range(10, 15), *range(20, 25)]
    more.join()
    before = json.loads(progress.capture(1, 0, is_new=True))["data"]["0"]
    after = reader.live_state()
    server.publish(("made.1", b"%d\t0" % row) for row in range(30, 40))
    again = fleet.data.files(server.url("made"), SCHEMA, 10, follow=True)
    for state, expected in [
        (before, [*range(10, 15), *range(20, 25)]),
        (after, [25, 26, 27, *range(30, 37)]),
        (plain, [*range(10, 15), *range(30, 35)]),
    ]:
        again.load_state_dict(json.loads(json.dumps(state)))
        assert ids(islice(again, 1)) == expected
    del batches


def test_what_comes_while_it_is_followed(server: NatsServer, alone: None) -> None:
    server.make("live", ["live.0", "live.1"])
    batches = fleet.data.files(server.url("live"), SCHEMA, 10, follow=Feed(most=60))
    found: list[int] = []
    put(server, "live", range(20))
    for batch in batches:
        found += batch.ids[:, 0].tolist()
        put(server, "live", range(len(found) + 10, min(len(found) + 20, 60)))
    assert sorted(found) == list(range(60))
    assert not [one.name for one in threading.enumerate() if one.name.startswith(("fleet-nats", "fleet-files"))]


def test_a_bad_record_is_a_dead_letter_and_a_late_one_is_counted(
    server: NatsServer, alone: None, tmp_path: Path
) -> None:
    server.make("bad", ["bad"])
    now = time.time()
    lines = [b"%d\t%f" % (row, now) for row in range(200)]
    for row in (3, 50, 51, 52, 53, 54, 55, 56, 199):
        lines[row] = b"no\xffid\t1"
    lines[100] = b"100\t%f" % (now - 500)
    lines[7] = b"7\t1\n8\t1"
    lines[20] = b""
    server.publish(("bad", line) for line in lines)
    feed = Feed(idle_s=0, time="at", late_s=100, dead_letters=tmp_path)
    batches = fleet.data.files(server.url("bad"), SCHEMA, 8, follow=feed, bad=0.1)
    loop = iter(batches)
    found = ids(islice(loop, 3))
    counted: dict[Any, Any] = {(one.name, *one.labels.values()): one.value for one in registry.read()}
    del loop
    assert {what: counted["fleet_worker_feed_records_total", what] for what in ("read", "late", "dead")} == {
        "read": 189,
        "late": 1,
        "dead": 10,
    }
    assert 0 <= counted[("fleet_worker_feed_lag_seconds",)] < 400
    found += ids(batches)
    assert found == [row for row in range(200) if row not in (3, 7, 20, 50, 51, 52, 53, 54, 55, 56, 199)]
    again = fleet.data.files(server.url("bad"), SCHEMA, 8, follow=feed, bad=0.1)
    assert ids(again) == found
    letters = [json.loads(line) for line in (tmp_path / "worker-0.jsonl").read_text().splitlines()]
    assert [one["position"] for one in letters] == [4, 8, 51, 52, 53, 54, 55, 56, 57, 200], "each once"
    assert letters[0]["record"] == "no\\xffid\t1"
    assert "id" in letters[0]["why"]
    assert letters[1]["why"] == "a record of several lines"
    with pytest.raises(UsageError, match=r"10 of 199 lines cannot be read, the first: .* mend the schema"):
        ids(fleet.data.files(server.url("bad"), SCHEMA, 8))
    moved = DeadLetters(tmp_path, 1, 1 << 20)  # the partition has another worker now
    moved.add(letters[0]["stream"], [(StreamRecord(position, 0.0, b"x"), "why") for position in (4, 1000)])
    assert [json.loads(line)["position"] for line in moved.path.read_text().splitlines()] == [1000]
    small = Feed(idle_s=0, dead_letters=tmp_path / "small", dead_bytes=400)
    assert ids(fleet.data.files(server.url("bad"), SCHEMA, 8, follow=small, bad=0.1)) == found
    assert 200 < (tmp_path / "small/worker-0.jsonl").stat().st_size <= 400


def test_records_that_the_broker_has_deleted_are_missed(server: NatsServer, alone: None) -> None:
    server.make("gone", ["gone"], max_msgs=100)
    server.publish(("gone", b"%d\t0" % row) for row in range(50))
    batches = fleet.data.files(server.url("gone"), SCHEMA, 10, follow=True)
    assert ids(islice(batches, 2)) == list(range(20))
    state = batches.state_dict()
    server.publish(("gone", b"%d\t0" % row) for row in range(50, 140))
    again = fleet.data.files(server.url("gone"), SCHEMA, 10)
    again.load_state_dict(state)
    with pytest.raises(UsageError, match=r"gone/gone has its records from 41 on, and those from 1 on .*retention"):
        ids(again)


def test_a_reader_that_is_slower_than_retention_is_told(server: NatsServer, alone: None, monkeypatch: Any) -> None:
    monkeypatch.setattr("fleet_tools.streams.nats_stream.ANSWER_S", 0.5)
    server.make("slow", ["slow"], max_msgs=9000)
    line = b"7\t0"
    server.publish(("slow", line) for _ in range(9000))
    batches = iter(fleet.data.files(server.url("slow"), SCHEMA, 100))
    next(batches)
    server.do("purge_stream", "slow")
    with pytest.raises(UsageError, match="the broker has deleted them"):
        ids(batches)


def test_a_stream_that_is_made_anew_is_noticed(server: NatsServer, alone: None) -> None:
    (url,) = tool("streams").streams_of([server.url("anew")])
    server.make("anew", ["anew"])
    server.publish(("anew", b"%d" % row) for row in range(20))
    with closing(tool("streams").open_stream(url)) as stream:
        records, position = stream.read("anew", stream.bounds("anew")[0])
        assert [one.value for one in records] == [b"%d" % row for row in range(20)]
        state = fleet.data.files(server.url("anew"), SCHEMA, 10).state_dict()
        server.do("delete_stream", "anew")
        server.make("anew", ["anew"])
        server.publish(("anew", b"%d" % row) for row in range(100, 140))
        with pytest.raises(UsageError, match="anew was made anew since, .*; begin without the position"):
            stream.read("anew", position)
    with pytest.raises(UsageError, match="anew was made anew since"):
        fleet.data.files(server.url("anew"), SCHEMA, 10).load_state_dict(json.loads(json.dumps(state)))


def test_a_connection_that_broke_before_the_first_record_is_made_again(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("fleet_tools.streams.nats_stream.ANSWER_S", 0.5)
    with nats_server(tmp_path) as server:
        server.make("broke", ["broke"])
        (url,) = tool("streams").streams_of([server.url("broke")])
        with closing(tool("streams").open_stream(url)) as stream:
            server.kill()
            server.start()
            with suppress(ConnectionError):  # the first call may find the old connection
                stream.bounds("broke")
            assert stream.bounds("broke")[1] == 1


def test_a_password_that_is_refused_is_an_error_at_once(tmp_path: Path, alone: None) -> None:
    with nats_server(tmp_path, "--user", "reader", "--pass", "secret") as server:
        started = time.monotonic()
        with pytest.raises(UsageError, match=r"small: the broker refuses the user or the password; give") as caught:
            fleet.data.files(server.url("small").replace("//", "//reader:wrong@"), SCHEMA, 8)
        assert time.monotonic() - started < 10
        assert "wrong" not in str(caught.value)


def test_a_broker_that_comes_back_is_waited_for(tmp_path: Path, alone: None, monkeypatch: Any) -> None:
    monkeypatch.setattr("fleet_tools.streams.nats_stream.ANSWER_S", 0.5)
    with nats_server(tmp_path) as server:
        server.make("back", ["back"])
        server.publish(("back", b"%d\t0" % row) for row in range(30))
        batches = iter(fleet.data.files(server.url("back"), SCHEMA, 10, follow=Feed(most=50)))
        found = ids(islice(batches, 2))
        server.kill()
        started = threading.Timer(0.5, server.start)
        started.start()
        found += ids(islice(batches, 1))
        started.join()
        server.publish(("back", b"%d\t0" % row) for row in range(30, 50))
        found += ids(batches)
        assert found == list(range(50))
        reader = fleet.data.files(server.url("back"), SCHEMA, 10, follow=Feed(away_s=0.3))
        server.kill()
        with pytest.raises(CommunicationError, match=r"no NATS server answers .* for \d s; start the broker"):
            ids(reader)
        with pytest.raises(CommunicationError, match="start the broker"):
            fleet.data.files(server.url("back"), SCHEMA, 10, follow=Feed(away_s=0.3))
        server.start()


def test_what_is_refused(server: NatsServer, alone: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server.make("small", ["small"])
    url = server.url("small")

    def refused(line: str, paths: Any = url, schema: Schema = SCHEMA, **given: Any) -> None:
        with pytest.raises(UsageError, match=line):
            fleet.data.files(paths, schema, 8, **given)

    refused("the broker has no stream 'none'", server.url("none"))
    refused("a URL of a stream is nats://HOST:PORT/STREAM, got nats://h:1", "nats://u:secret@h:1")
    refused("beside it there are files", [url, "x.csv"])
    refused("stands twice", [url, url])
    refused("has the option 'subject'; there is subjects", url + "?subject=x")
    refused("read by one thread", threads=2)
    refused("read by one thread", format="parquet")
    refused("without queue=True", queue=True)
    refused(r"follow=fleet.data.Feed", follow=fleet.data.Follow())
    refused("is for streams", tmp_path, follow=Feed())
    refused("time='when' must be among the numbers", follow=Feed(time="when"))
    refused("has no first line", schema=Schema(label="y", header=True))
    refused("dead letters cannot be kept", follow=Feed(dead_letters="/dev/null/x"))
    for given, line in [({"most": 0}, "most must be"), ({"idle_s": -1}, "idle_s must be"), ({"away_s": 0}, "away_s")]:
        with pytest.raises(UsageError, match=line):
            Feed(**given)  # type: ignore[arg-type]
    reader = fleet.data.files(url, SCHEMA, 8)
    with pytest.raises(UsageError, match="streams was"):
        reader.load_state_dict({**reader.state_dict(), "streams": "other"})
    with pytest.raises(UsageError, match="there is no such partition"):
        reader.load_state_dict({**reader.state_dict(), "positions": {"x": 1}})
    monkeypatch.setitem(sys.modules, "nats", None)
    refused(r"needs the package nats-py: pip install 'torch-fleet\[nats\]'")


def test_a_record_larger_than_what_is_read_at_once(server: NatsServer, alone: None, monkeypatch: Any) -> None:
    monkeypatch.setattr("fleet_tools.streams.nats_stream.MOST_BYTES_AT_ONCE", 2000)
    server.make("large", ["large"])
    server.publish(("large", b"%d\t%s" % (row, b"0" * (5000 if row in (0, 7) else 300))) for row in range(30))
    assert ids(fleet.data.files(server.url("large"), SCHEMA, 8)) == list(range(30))
