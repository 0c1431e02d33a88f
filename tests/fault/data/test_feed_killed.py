"""Durable jobs that read a stream, of a real NATS server: each record counts once, whoever is killed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from support.data.brokers import KafkaCluster, nats_server
from support.data.fed_jobs import NUM_RECORDS, at, end, fill, job, kill

pytestmark = pytest.mark.timeout(300)


def test_each_record_counts_once_and_the_bits_are_the_same(tmp_path: Path) -> None:
    """A worker, a server, the broker and then the whole job are killed."""
    subjects = [f"clicks.{number}" for number in range(4)]
    with nats_server(tmp_path / "nats") as server:
        server.make("clicks", subjects)
        fill(server, range(NUM_RECORDS))
        server.publish((f"clicks.{number % 4}", b"bad") for number in range(20))
        with job(tmp_path / "calm", server.url("clicks")) as running:
            expected = end(running)
        with job(tmp_path / "killed", server.url("clicks")) as running:
            at(running, "worker.1", 6)
            server.do("update_stream", name="clicks", subjects=["bids", *subjects])  # nobody's while this job lives
            kill(running, "worker.1")
            at(running, "worker.0", 14)
            kill(running, "server.0")
            at(running, "worker.0", 22)
            server.kill()
            kill(running, "worker.0")
            server.start()
            at(running, "worker.1", 30)
        with job(tmp_path / "killed", server.url("clicks")) as running:
            found = end(running)
    assert (found[0] * 2 == 1).all(), "the mean of two workers, of which one has the record"
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.exhaustive
def test_each_record_of_a_topic_counts_once_and_the_bits_are_the_same(tmp_path: Path) -> None:
    """As above with Kafka, whose mock cluster lives in this process and stays."""
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    cluster = KafkaCluster()
    cluster.publish("clicks", ((row % 4, b"%d" % row) for row in range(NUM_RECORDS)))
    with job(tmp_path / "calm", cluster.url("clicks")) as running:
        expected = end(running)
    with job(tmp_path / "killed", cluster.url("clicks")) as running:
        for step, name in [(6, "worker.1"), (14, "server.0"), (22, "worker.0")]:
            at(running, "worker.1", step)
            kill(running, name)
        at(running, "worker.0", 30)
    with job(tmp_path / "killed", cluster.url("clicks")) as running:
        found = end(running)
    assert (found[0] * 2 == 1).all()
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_each_record_of_a_stream_that_grows_counts_once(mode: str, seed: int, tmp_path: Path) -> None:
    """Batches are made of what has come when, and read ahead; workers, servers and the broker die at any moment."""
    rng = random.Random(seed)
    with nats_server(tmp_path / "nats") as server:
        server.make("clicks", [f"clicks.{number}" for number in range(4)])
        with job(tmp_path / "live", server.url("clicks"), "live", mode) as running:
            for part in range(0, NUM_RECORDS, 50):
                fill(server, range(part, part + 50))
                if part >= 200:
                    at(running, "worker.0", part // 32 - 4)
                victim = rng.choice(["worker.0", "worker.1", "server.0", "server.1", "broker", *[""] * 15])
                if victim == "broker":
                    server.kill()
                    server.start()
                elif victim:
                    kill(running, victim)
            found = end(running)
    assert (found[0] * (2 if mode == "sync" else 1) == 1).all()
