"""Durable jobs that read a stream, of a real NATS server: each record counts once, whoever is killed."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
import torch

from support.data.brokers import KafkaCluster, NatsServer, nats_server
from support.jobs import LIMIT_S, RunningJob, script
from support.processes import wait_until

pytestmark = pytest.mark.timeout(300)

NUM_RECORDS = 1600

# `ads` counts the records that each row was trained on; `users` and the layer depend on the order of all.
WORK = f"""
    import os, sys, time
    import torch
    from torch import nn
    import fleet
    from fleet_tools.streams import nats_stream

    nats_stream.MOST_AT_ONCE = 30  # so that a batch is made of several chunks
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = "async" in sys.argv
    fleet.init(strategy=strategy)
    name = f"server.{{fleet.server_index()}}" if fleet.is_server() else f"worker.{{fleet.worker_index()}}"
    with open(f"{{name}}.pid.part", "w") as file:
        file.write(f"{{os.getpid()}}\\n")
    os.rename(file.name, f"{{name}}.pid")

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            zeros, ones = fleet.initializers.Constant(0.0), fleet.initializers.Constant(1.0)
            self.ads = fleet.nn.Embedding(1, table="ads", rule=fleet.rules.SGD(lr=1.0), initializer=zeros)
            self.users = fleet.nn.Embedding(2, table="users", rule=fleet.rules.Adagrad(lr=0.1), initializer=ones)
            self.last = nn.Linear(2, 1, bias=False)
            nn.init.ones_(self.last.weight)

        def forward(self, ids):
            of_users = self.last(self.users(ids[:, 0] % 50))
            return (of_users - ids % 3).square().mean() - self.ads(ids).sum()

    model = fleet.distributed_model(Net())
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.01))
    if fleet.is_server():
        fleet.run_server()
        sys.exit()
    fleet.init_worker()
    schema = fleet.data.Schema(categories=[fleet.data.Category("id", hash=False)], columns=["id"])
    is_live = "live" in sys.argv
    feed = fleet.data.Feed(most={NUM_RECORDS}) if is_live else fleet.data.Feed(idle_s=0, dead_letters="dead")
    data = fleet.data.files(sys.argv[1], schema, 16, shuffle=True, follow=feed, bad=0.1)
    for batch in fleet.prefetch(data, model, keys=lambda batch: {{"ads": batch.ids}}) if is_live else data:
        optimizer.zero_grad()
        model(batch.ids).backward()
        optimizer.step()
        with open(f"{{name}}.part", "w") as file:
            file.write(f"{{fleet.steps_done()}}\\n")
        os.rename(file.name, f"{{name}}.at")
        time.sleep(0.01)
    fleet.barrier_worker()
    if fleet.is_first_worker():
        with torch.no_grad():
            found = model.ads(torch.arange({NUM_RECORDS})), model.users(torch.arange(50)), model.last.weight
        torch.save([one.detach().clone() for one in found], "out.pt")
    fleet.barrier_worker()
    fleet.stop_worker()
"""


def job(folder: Path, url: str, *how: str) -> RunningJob:
    folder.mkdir(exist_ok=True)
    arguments = ["--server_num", 2, "--worker_num", 2, "--durable", "kept", script(folder, WORK), url]
    return RunningJob([*arguments, *how], folder, {"OMP_NUM_THREADS": "1"}, warm=True)


def at(running: RunningJob, name: str, step: int) -> None:
    """Wait until a worker has made so many steps."""
    file = running.cwd / f"{name}.at"

    def is_there() -> bool:
        return (file.exists() and int(file.read_text()) >= step) or running.ends_within(0)

    wait_until(is_there, LIMIT_S, f"step {step} of {name}")


def kill(running: RunningJob, name: str) -> None:
    file = running.cwd / f"{name}.pid"
    wait_until(file.exists, LIMIT_S, f"the next life of {name}")
    number = int(file.read_text())
    file.unlink()  # by its next life it is written again
    os.kill(number, signal.SIGKILL)


def end(running: RunningJob) -> list[torch.Tensor]:
    result = running.finish()
    assert result.code == 0, result.err
    found: list[torch.Tensor] = torch.load(running.cwd / "out.pt")
    return found


def fill(server: NatsServer, rows: range) -> None:
    """Records whose ids are their numbers, over four partitions."""
    server.publish((f"clicks.{row % 4}", b"%d" % row) for row in rows)


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
