"""Real brokers for tests: a NATS server with JetStream, and the mock cluster that Kafka's own client has."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support.jobs import LIMIT_S
from support.processes import wait_until


def needs_nats() -> None:
    """Skip where there is no NATS."""
    pytest.importorskip("nats", reason="nats-py is not installed")
    if shutil.which("nats-server", path="/usr/sbin:/usr/bin:/usr/local/bin") is None:
        pytest.skip("there is no nats-server here (Debian: apt-get install nats-server)")


class NatsServer:
    """A server on this machine; killed and started again it has what it had, and the same port."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder, self._options, self._process, self.port = folder, options, None, -1
        self.start()

    _process: subprocess.Popen[bytes] | None

    def start(self) -> None:
        """Start, and return when it can be reached."""
        told = self._folder / "ports"
        told.mkdir(parents=True, exist_ok=True)
        binary = shutil.which("nats-server", path="/usr/sbin:/usr/bin:/usr/local/bin")
        assert binary is not None
        where = ["-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self._folder), "--ports_file_dir", str(told)]
        self._process = subprocess.Popen(
            [binary, "-js", *where, *self._options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        file = told / f"nats-server_{self._process.pid}.ports"
        wait_until(lambda: file.exists() and file.read_bytes().endswith(b"}"), LIMIT_S, "the port of nats-server")
        self.port = int(json.loads(file.read_text())["nats"][0].rpartition(":")[2])

    def kill(self) -> None:
        """Kill it."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process that runs now."""
        assert self._process is not None
        return self._process

    def url(self, stream: str) -> str:
        return f"nats://127.0.0.1:{self.port}/{stream}"

    def make(self, stream: str, subjects: list[str], **config: Any) -> None:
        """Make a stream."""
        from nats.js.api import StreamConfig

        async def work(js: Any) -> None:
            await js.add_stream(StreamConfig(name=stream, subjects=subjects, **config))

        self._do(work)

    def publish(self, lines: Iterable[tuple[str, bytes]]) -> None:
        """Append records: subjects and values, in this order; returns when the last is stored."""

        async def work(js: Any) -> None:
            answers = [await js.publish_async(subject, value) for subject, value in lines]
            await asyncio.gather(*answers)

        self._do(work)

    def do(self, name: str, /, *arguments: Any, **given: Any) -> None:
        """Anything else that JetStream can be told."""

        async def work(js: Any) -> None:
            await getattr(js, name)(*arguments, **given)

        self._do(work)

    def _do(self, work: Any) -> None:
        import nats

        async def run() -> None:
            client = await nats.connect(f"nats://127.0.0.1:{self.port}", connect_timeout=5)
            await work(client.jetstream(timeout=30, publish_async_max_pending=1000))
            await client.close()

        asyncio.run(run())


@contextmanager
def nats_server(folder: Path, *options: str) -> Iterator[NatsServer]:
    """A server for the length of a block."""
    needs_nats()
    server = NatsServer(folder, *options)
    try:
        yield server
    finally:
        server.kill()


class RedisServer:
    """Redis on this machine; killed and started again it has what it had, and the same port."""

    def __init__(self, folder: Path, *options: str) -> None:
        pytest.importorskip("redis", reason="redis is not installed")
        if shutil.which("redis-server") is None:
            pytest.skip("there is no redis-server here (Debian: apt-get install redis-server)")
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._options = folder, options
        with socket.create_server(("127.0.0.1", 0)) as one:
            self.port: int = one.getsockname()[1]
        self.start()

    def start(self) -> None:
        """Start, and return when it can be reached."""
        where = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", ""]
        self.process = subprocess.Popen(
            ["redis-server", *where, "--appendonly", "yes", "--appendfsync", "always", *self._options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._answers, LIMIT_S, "redis-server to answer")

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 5) as one:
            one.sendall(b"PING\r\n")
            return one.recv(100).startswith(b"+PONG")
        return False

    def kill(self) -> None:
        """Kill it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def do(self, *words: str) -> None:
        """Any command."""
        import redis

        with redis.Redis(port=self.port) as client:
            client.execute_command(*words)


class KafkaCluster:
    """The mock cluster of librdkafka, in this process: a broker that speaks Kafka's protocol and keeps records."""

    def __init__(self) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({"bootstrap.servers": "none:1", "test.mock.num.brokers": 1, "log_level": 0})
        self._hosts = [str(one).split("/")[0] for one in self._producer.list_topics(timeout=20).brokers.values()]

    def url(self, topic: str) -> str:
        return f"kafka://{','.join(self._hosts)}/{topic}"

    def publish(self, topic: str, lines: Iterable[tuple[int, bytes]]) -> None:
        """Append records: partitions (of four) and values, in this order."""
        for partition, value in lines:
            self._producer.produce(topic, value, partition=partition)
        assert self._producer.flush(30) == 0
