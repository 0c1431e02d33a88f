"""`fleet-serve` as people start it: two replicas follow a stream, one is killed, and comes back with what it lacks."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest

from fleet.errors import FleetError
from fleet_serve.client import ServingClient
from support.serving.replicas import LIMIT_S, TOKEN, replica
from support.serving.served_models import WrittenStream, save_copy

KEYS = np.arange(50, dtype=np.int64)


def asked(client: ServingClient, numbers: list[int]) -> dict[str, list[float]]:
    """The first value of each row, once the replica has these batches."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            rows, version = client.lookup({"ads": KEYS, "users": KEYS})
            if list(version.numbers) == numbers:
                return {table: values[:, 0].tolist() for table, values in rows.items()}
        except FleetError:  # it is not there yet, or has no model
            pass
        assert time.monotonic() < deadline, f"waited {LIMIT_S:g} s for {numbers}"
        time.sleep(0.01)


def test_two_replicas_of_which_one_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_JOB_TOKEN", TOKEN)
    stream = WrittenStream(tmp_path / "stream", {"ads": 2, "users": 3}, shards=1)
    stream.change(0, 1.0, KEYS)
    stream.base()
    arguments = ("--follow", str(stream.folder), "--cache", str(tmp_path / "cache"), "--max_lag", "600")
    with ExitStack() as stack:
        first, second = (stack.enter_context(replica(*arguments)) for _ in range(2))
        clients = [stack.enter_context(ServingClient(one.endpoint)) for one in (first, second)]
        for one in clients:
            assert asked(one, [1])["users"] == [1.0] * 50
        assert second.end(signal.SIGKILL)[0] == -signal.SIGKILL
        stream.change(0, 2.0, KEYS[:10], KEYS[40:])
        expected = [2.0] * 10 + [1.0] * 30 + [0.0] * 10
        assert asked(clients[0], [2])["ads"] == expected
        third = stack.enter_context(replica(*arguments))
        client = stack.enter_context(ServingClient(third.endpoint))
        assert asked(client, [2])["ads"] == expected
        with urlopen(f"http://{third.http}/readyz", timeout=LIMIT_S) as answer:
            assert answer.status == 200
        stream.change(0, 3.0, KEYS)
        stream.base()
        for one in (clients[0], client):
            assert asked(one, [3])["users"] == [3.0] * 50
        for ended in (first, third):
            code, said = ended.end()
            assert code == 0, said
            assert "Traceback" not in said
            assert "serving base base-000001-one@" in said


def test_a_folder_is_served_and_what_cannot_be_is_told_in_a_line(tmp_path: Path) -> None:
    folder = save_copy(tmp_path / "model", {"ads": (KEYS, np.ones((50, 2), np.float32))})
    with replica(str(folder)) as one:
        asking = Request(f"http://{one.http}/v1/lookup", b'{"tables": {"ads": [7]}}')
        asking.add_header("Authorization", f"Bearer {TOKEN}")
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                with urlopen(asking, timeout=LIMIT_S) as answer:
                    assert b'"rows":[[1.0,1.0]]' in answer.read()
                break
            except OSError:  # 503: it is not loaded yet
                assert time.monotonic() < deadline
                time.sleep(0.01)
        assert one.end()[0] == 0
    assert (tmp_path / ".fleet-serve").is_dir()
