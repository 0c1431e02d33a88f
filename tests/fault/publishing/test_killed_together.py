"""Broker, servers, workers and a replica are killed at random in a job that reads a broker and publishes to one.

At the end the replica has the tables row by row, each record counts once, and in sync mode the bits are those of a run
that nothing happened to.
"""

from __future__ import annotations

import random
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import torch

from fleet.errors import FleetError
from fleet_serve.client import ServingClient
from support.data.brokers import NatsServer, RedisServer, nats_server
from support.data.fed_jobs import NUM_RECORDS, at, end, fill, job, kill
from support.serving.replicas import LIMIT_S, TOKEN, Replica
from support.sweeps import sweep

pytestmark = pytest.mark.timeout(400)

MODES, PLACES, SEEDS = ["sync", "async"], ["nats", "redis", "folder"], range(17)
SAMPLE = {("sync", "nats", 0), ("async", "redis", 0)}


def filled(server: NatsServer) -> str:
    server.make("clicks", [f"clicks.{number}" for number in range(4)])
    fill(server, range(NUM_RECORDS))
    return server.url("clicks")


class KilledReplica:
    """A replica that can be killed, and is there again at once."""

    def __init__(self, url: str, cache: Path) -> None:
        self._arguments = ("--follow", url, "--cache", str(cache))
        self.now = Replica(*self._arguments)

    def kill(self) -> None:
        self.end()
        self.now = Replica(*self._arguments)

    def end(self) -> None:
        if self.now.process.poll() is None:
            self.now.end(signal.SIGKILL)

    def until_equal(self, expected: dict[str, np.ndarray]) -> None:
        """Wait until it answers with these rows, by their numbers."""
        keys = {name: np.arange(len(rows), dtype=np.int64) for name, rows in expected.items()}
        deadline, differ = time.monotonic() + LIMIT_S, {"rows": -1}
        with ServingClient(self.now.endpoint) as client:
            while any(differ.values()):
                assert time.monotonic() < deadline, f"rows that differ: {differ}"
                try:
                    found, _ = client.lookup(keys)
                    differ = {name: int((found[name] != rows).any(1).sum()) for name, rows in expected.items()}
                except FleetError:  # it has no model yet
                    time.sleep(0.05)


@pytest.mark.parametrize(
    ("mode", "place", "seed"), sweep(MODES, PLACES, SEEDS, sample=lambda *case: tuple(case) in SAMPLE)
)
def test_all_are_killed_at_random(
    mode: str, place: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_JOB_TOKEN", TOKEN)
    rng = random.Random(f"{mode}-{place}-{seed}")
    with ExitStack() as stack:
        broker = stack.enter_context(nats_server(tmp_path / "nats"))
        url, changes, redis, calm = filled(broker), str(tmp_path / "changes"), None, None
        if mode == "sync":  # of the same URL, which the order of records depends on
            with job(tmp_path / "calm", url, mode) as running:
                calm = end(running)
        if place == "redis":
            redis = RedisServer(tmp_path / "redis")
            stack.callback(lambda: redis.kill())
            changes = f"redis://127.0.0.1:{redis.port}/changes?bases={changes}"
        elif place == "nats":
            changes = f"{broker.url('changes')}?bases={changes}"
        replica = KilledReplica(changes, tmp_path / "cache")
        stack.callback(replica.end)
        running = stack.enter_context(job(tmp_path / "job", url, mode, f"publish={changes}"))
        victims = ["worker.0", "worker.1", "server.0", "server.1", "broker", "replica", *(["redis"] if redis else [])]
        for step in sorted(rng.sample(range(3, 46), 5)):
            at(running, "worker.0", step)
            victim = rng.choice(victims)
            if victim == "replica":
                replica.kill()
            elif victim in ("broker", "redis"):
                struck = broker if victim == "broker" or redis is None else redis
                struck.kill()
                time.sleep(rng.random() / 2)  # how long it is away
                struck.start()
            elif not running.ends_within(0):
                kill(running, victim)
        found = end(running)
        replica.until_equal({name: rows.numpy() for name, rows in zip(["ads", "users"], found, strict=False)})
    assert (found[0] * (2 if mode == "sync" else 1) == 1).all()
    if calm is not None:
        assert all(torch.equal(one, other) for one, other in zip(found, calm, strict=True))
