"""fleet.data.files in a torch DataLoader, and threads that read ahead in processes that end or fork."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import fleet
from fleet.data.reading import piece_order
from fleet.data.reading.read_ahead import ReadAhead
from fleet.errors import NotSupportedError
from support.data.numbered import SCHEMA, Lines, ids, write
from support.serving.readers import ThreadJob

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def alone() -> Iterator[None]:
    fleet.init()
    yield
    fleet.shutdown()


def test_processes_of_a_loader_divide_a_workers_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers with 0 and 2 processes: every row once, another order in each epoch."""
    monkeypatch.setattr(piece_order, "LEAST_BLOCK_BYTES", 50)
    paths = write(tmp_path, [300, 200])

    def dataset(_: int) -> Any:
        return fleet.data.files(paths, SCHEMA, 7, format=Lines(60), shuffle=True).dataset()

    parts = ThreadJob(2).run(dataset)
    loaders = [DataLoader(part, batch_size=None, num_workers=2 * place) for place, part in enumerate(parts)]
    epochs: list[list[int]] = []
    for epoch in range(2):
        for part in parts:
            part.set_epoch(epoch)
        epochs.append([row for loader in loaders for batch in loader for row in ids(batch)])
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(500))
    assert epochs[0] != epochs[1]
    with pytest.raises(NotSupportedError, match="its processes read ahead"):
        parts[0].state_dict()


def test_a_loader_in_a_shard(tmp_path: Path, alone: None) -> None:
    """The epoch is told by the shard, whose position counts batches; processes live on."""
    paths = write(tmp_path, [300])

    def made() -> fleet.data.Shard:
        dataset = fleet.data.files(paths, SCHEMA, 7, format=Lines(60), shuffle=True).dataset()
        loader = DataLoader(dataset, batch_size=None, num_workers=1, persistent_workers=True)
        return fleet.data.shard(loader, uneven="join")

    batches = made()
    epochs = [[ids(batch) for batch in batches] for _ in range(2)]
    assert epochs[0] != epochs[1]
    again = made()
    again.load_state_dict({**batches.state_dict(), "epoch": 1, "batches_taken": 3})
    assert [ids(batch) for batch in again] == epochs[1][3:]


def test_a_loader_takes_nothing_from_a_queue(tmp_path: Path, alone: None) -> None:
    batches = fleet.data.files(write(tmp_path, [20]), SCHEMA, 7, format=Lines(60), queue=True)
    with pytest.raises(NotSupportedError, match="leave out queue=True"):
        batches.dataset()


def test_a_fork_in_the_middle_of_a_loop(tmp_path: Path, alone: None) -> None:
    """The child neither waits for threads that it does not have, nor takes the parent's away."""
    batches = fleet.data.files(write(tmp_path, [3000]), SCHEMA, 10, format=Lines(200))
    rows: list[int] = []
    for batch in batches:
        rows += ids(batch)
        if len(rows) == 100:
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                try:
                    del batch
                    rest = [row for one in batches.dataset() for row in ids(one)]
                    os._exit(0 if rest == list(range(3000)) else 1)
                finally:
                    os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert rows == list(range(3000))


def test_results_come_in_order_within_bounds() -> None:
    """Three threads, each item slower than the one after; never more than four under way."""
    under_way, most = 0, 0
    lock = threading.Lock()
    gates = [threading.Event() for _ in range(20)]

    def read(item: int) -> int:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        if item % 3 == 0 and item + 1 < 20:
            gates[item + 1].wait(10)  # until the next one is done
        gates[item].set()
        with lock:
            under_way -= 1
        return item * item

    with ReadAhead(iter(range(20)), read, num_threads=3, most_ahead=4) as ahead:
        assert list(ahead) == [(item, item * item) for item in range(20)]
    assert 2 <= most <= 3


def test_an_error_comes_in_its_place() -> None:
    def read(item: int) -> int:
        if item == 5:
            raise OSError("the disk is gone")
        return item

    found = []
    with (
        pytest.raises(OSError, match="the disk is gone"),
        ReadAhead(iter(range(20)), read, num_threads=3, most_ahead=9) as ahead,
    ):
        for item, _ in ahead:
            found.append(item)
    assert found == [0, 1, 2, 3, 4]


def test_an_item_that_cannot_be_had_is_an_error() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"), ReadAhead(items(), int, num_threads=2, most_ahead=2) as ahead:
        found = iter(ahead)
        assert next(found) == (1, 1)
        next(found)
