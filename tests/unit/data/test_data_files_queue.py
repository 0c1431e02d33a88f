"""fleet.data.files(queue=True): whoever is free takes the next piece; every row once, also after a stop."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fleet
from fleet.data.reading import piece_order
from fleet.errors import UsageError
from support.data.numbered import SCHEMA, Lines, ids, write
from support.serving.readers import ThreadJob


class Handing:
    """A queue that the workers of one job share, as `fleet.data.queue` describes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: dict[int, list[int]] = {}
        self._extents: dict[int, Any] = {}

    def begin(self, epoch: int, first: int, total: int, extra: Sequence[int], taken: int = 0) -> None:
        assert taken == 0
        with self._lock:
            assert self._extents.setdefault(epoch, (first, total, extra)) == (first, total, extra)
            self._left.setdefault(epoch, [*extra, *range(first, total)])

    def take(self, epoch: int) -> int | None:
        with self._lock:
            return self._left[epoch].pop(0) if self._left[epoch] else None

    def rows_taken(self, epoch: int, piece: int) -> int:  # noqa: ARG002
        return 0

    def wait(self, epoch: int) -> bool:  # noqa: ARG002
        return False


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_order, "LEAST_BLOCK_BYTES", 50)


def read(
    paths: Sequence[str],
    num_workers: int,
    states: list[dict[str, Any]] | None = None,
    stop_after: Sequence[int] | None = None,
    *,
    until: int = 1,
    queue: bool = True,
    pause_s: Sequence[float] = (0, 0, 0, 0),
    shuffle: bool = False,
) -> tuple[list[list[int]], list[dict[str, Any]]]:
    """As in test_data_files: rows and states of each worker. One that is stopped goes on to read ahead."""
    shared = Handing()

    def work(index: int) -> tuple[list[int], dict[str, Any]]:
        batches = fleet.data.files(paths, SCHEMA, 7, format=Lines(60), queue=queue, shuffle=shuffle)
        if states is not None:
            batches.load_state_dict(json.loads(json.dumps(states)))
        rows: list[int] = []
        left = None if stop_after is None else stop_after[index]
        for _ in range(max(0, until - batches.epoch)):
            for batch in batches if left is None else islice(batches, left):
                rows += ids(batch)
                left = None if left is None else left - 1
                time.sleep(pause_s[index])
        return rows, batches.state_dict()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fleet.data.reading.from_files.piece_source", lambda *_: shared)
        found = ThreadJob(num_workers).run(work)
    return [rows for rows, _ in found], [state for _, state in found]


def flat(parts: list[list[int]]) -> list[int]:
    return [row for part in parts for row in part]


def test_a_slow_worker_reads_less(tmp_path: Path) -> None:
    paths = write(tmp_path, [2000])
    parts, _ = read(paths, 2, pause_s=(0, 0.02), until=2)
    assert sorted(flat(parts)) == sorted([*range(2000)] * 2)
    assert len(parts[1]) < len(parts[0]) / 3


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), chain=st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=2, max_size=4))
def test_a_chain_of_other_workers_with_and_without_a_queue(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, chain: list[tuple[int, bool]]
) -> None:
    paths = write(tmp_path_factory.mktemp("files"), [60, 41])
    seen: list[int] = []
    states = None
    for num_workers, queue in chain[:-1]:
        stops = data.draw(st.lists(st.integers(0, 9), min_size=num_workers, max_size=num_workers))
        parts, states = read(paths, num_workers, states, stops, until=2, queue=queue, shuffle=True)
        seen += flat(parts)
    assert states is not None
    last = max([state["epoch"] for state in states] + [int(epoch) for state in states for epoch in state["later"]])
    parts, _ = read(paths, chain[-1][0], states, until=last + 1, queue=chain[-1][1], shuffle=True)
    assert sorted(seen + flat(parts)) == sorted([*range(101)] * (last + 1))


def test_one_state_is_not_enough(tmp_path: Path) -> None:
    paths = write(tmp_path, [100])
    _, states = read(paths, 2, stop_after=[2, 2])
    with pytest.raises(UsageError, match="the state of worker 1 of 2 is missing"):
        read(paths, 1, states[:1])
    fleet.init()
    try:
        batches = fleet.data.files(paths, SCHEMA, 7, format=Lines(60))
        with pytest.raises(UsageError, match="worker 0 of 2, and this is worker 0 of 1"):
            batches.load_state_dict(states[0])
        with pytest.raises(UsageError, match="was saved with queue=True"):
            batches.load_state_dict({**states[0], "workers": 1})
        alone = fleet.data.files(paths, SCHEMA, 7, format=Lines(60), queue=True)
        rows = [row for batch in islice(alone, 5) for row in ids(batch)]
        again = fleet.data.files(paths, SCHEMA, 9, format=Lines(60), queue=True)
        again.load_state_dict(alone.state_dict())
        assert rows + [row for batch in again for row in ids(batch)] == list(range(100))
    finally:
        fleet.shutdown()
