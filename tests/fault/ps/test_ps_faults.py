"""Lost connections, servers that die or come back empty, full disks: a push is applied once, or somebody is told.

Workers are `Fleet` objects in threads of this process, servers are real ones, here or in processes of their own.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import psutil
import pytest
import torch
from torch import nn

import fleet
from fleet import checkpoint
from fleet.errors import CheckpointError, CommunicationError, DeadlineError, NotReadyError
from fleet.net import Endpoint, Hold
from fleet.ps.server.grpc_server import GrpcServer
from fleet.ps.server.service import Service
from fleet.ps.worker.calling import changes, requests
from fleet.ps.worker.sending.gradients import Gradients
from support.jobs import running, script
from support.parity.training import LIMIT_S, dense_of, in_threads, joined, rows_of, served, started, strategy
from support.plane.proxy import Cut, cutting
from support.processes import wait_until
from support.serving.serving import REAL, server_process
from support.sweeps import sweep

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet.ps.wire.messages import Tensors

pytestmark = pytest.mark.timeout(300)

NUM_STEPS = 20
MODES = ["sync", "async", "half", "geo"]


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "60")
    monkeypatch.setenv("FLEET_STEP_TIMEOUT_S", "60")


class Losing(Service):
    """A server whose connections break at every fourth push, before or after it was applied."""

    def __init__(self) -> None:
        super().__init__()
        self.lose: Callable[[], None] = lambda: None
        self._num_pushes = 0

    def handle(self, method: str, header: Message, tensors: Tensors) -> tuple[Message, Tensors]:
        """Answer, but not for all to hear."""
        self._num_pushes += method == "Push"
        loses = method == "Push" and self._num_pushes % 4 == 0
        if loses and self._num_pushes % 8 == 0:
            self.lose()
        answer = super().handle(method, header, tensors)
        if loses:
            self.lose()
        return answer


def cuts(seed: int) -> Callable[[], Cut]:
    """Connections that last for a few calls, ending on the way there or back."""
    rng = random.Random(seed)
    return lambda: Cut(rng.choice(("up", "down")), rng.randrange(1000, 8000))


def train_all(
    endpoints: Sequence[Endpoint],
    num_workers: int,
    mode: str,
    ahead: bool = False,
    num_steps: int = NUM_STEPS,
    **fields: Any,
) -> list[Trained]:
    """Train with some workers; with `ahead` the first of them prefetches."""

    def work(index: int) -> Trained:
        with joined(endpoints, index, num_workers, strategy=strategy(mode, **fields)) as one:
            one.train(num_steps, ahead=ahead and index == 0)
            one.fleet.flush()
            stats = one.stats()
            one.fleet.stop_worker()
            return Trained(dense_of(one.model), stats)

    return in_threads(*(partial(work, index) for index in range(num_workers)))


class Trained(NamedTuple):
    """A worker in the end."""

    dense: dict[str, bytes]
    stats: list[dict[str, Any]]


@pytest.mark.parametrize("ahead", [False, True])
def test_pushes_whose_connection_is_cut_are_applied_once(ahead: bool) -> None:
    with served(2) as (endpoints, services):
        expected = train_all(endpoints, 2, "sync")
        rows = rows_of(services)
    losing = [Losing(), Losing()]
    with served(losing) as (endpoints, _):
        with cutting(endpoints[0], cuts(1)) as first, cutting(endpoints[1], cuts(2)) as second:
            losing[0].lose, losing[1].lose = first.cut_all, second.cut_all
            got = train_all([first.endpoint, second.endpoint], 2, "sync", ahead)
            losing[0].lose = losing[1].lose = lambda: None
        assert all(sum(each["repeated_pushes"] for each in one.stats) > 5 for one in got)
        assert [one.dense for one in got] == [one.dense for one in expected]
        assert rows_of(losing) == rows


@pytest.mark.parametrize("mode", ["async", "half", "geo"])
def test_pushes_whose_connection_is_cut_are_counted_once(mode: str) -> None:
    losing = Losing()
    with served([losing]) as ([endpoint], _), cutting(endpoint, cuts(3)) as proxy:
        losing.lose = proxy.cut_all
        (one,) = train_all([proxy.endpoint], 1, mode, k_steps=1)
    (stats,) = one.stats
    assert stats["pushes"] == stats["version"] == NUM_STEPS
    assert stats["repeated_pushes"] >= 4


def test_an_answer_to_the_last_word_may_be_lost(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server ends when all have left, so whoever left last may find nobody to say it to again."""

    class Ending(Service):
        def handle(self, method: str, header: Message, tensors: Tensors) -> tuple[Message, Tensors]:
            answer = super().handle(method, header, tensors)
            if method == "Leave":
                self.ends.set()
                proxy.cut_all()
            return answer

        ends = threading.Event()

    monkeypatch.setattr(changes, "LEAVE_S", 0.5)
    ending = Ending()
    with served([ending]) as ([endpoint], _):
        with cutting(endpoint, lambda: Cut("up", 1) if ending.ends.is_set() else None) as proxy:
            with joined([proxy.endpoint]) as one:
                one.train(2)
                one.fleet.stop_worker()
        assert ending.finished.is_set()
    assert f"worker 0 could not take leave: server {proxy.endpoint}: cannot be reached" in caplog.text


def test_a_server_that_is_down_at_the_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "2")
    with served() as ([endpoint], _), Hold.any_port() as hold:
        with pytest.raises(CommunicationError, match=f"server {hold.endpoint}: cannot be reached for Declare.* 2 s"):
            with joined([endpoint, hold.endpoint]):
                pass


@pytest.mark.parametrize("mode", sweep(MODES, sample=lambda mode: mode in ("sync", "geo")))
def test_a_server_that_is_killed_is_named_by_its_workers(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with served() as ([endpoint], _), server_process(REAL, token=None) as server:
        with joined([endpoint, server.endpoint], strategy=strategy(mode)) as one:
            one.train(3)
            one.fleet.flush()
            monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "1")
            server.process.kill()
            with pytest.raises(CommunicationError, match=f"server {server.endpoint}: .*1 s .FLEET_RPC_TIMEOUT_S"):
                one.train(10)
            with pytest.raises(CommunicationError, match=f"server {server.endpoint}"):
                one.fleet.stop_worker()


@pytest.mark.parametrize("mode", sweep(MODES, sample=lambda mode: mode in ("async", "half")))
def test_a_server_that_hangs_is_named(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "GRACE_S", 0.2)
    with server_process(REAL, token=None) as server, joined([server.endpoint], strategy=strategy(mode)) as one:
        one.train(2)
        one.fleet.flush()
        server.process.send_signal(signal.SIGSTOP)
        monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "1")
        monkeypatch.setenv("FLEET_STEP_TIMEOUT_S", "1")
        with pytest.raises(DeadlineError, match=f"server {server.endpoint}: no answer to (Pull|Push) within"):
            one.train(10)
        monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "60")
        server.process.send_signal(signal.SIGCONT)
        assert one.stats()[0]["pushes"] >= 1  # it is back, and so are we


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_server_that_came_back_empty_refuses(mode: str) -> None:
    with Hold.any_port() as hold:
        server = GrpcServer(Service(), hold.endpoint, None, is_held=True)
        server.start()
        with joined([hold.endpoint], strategy=strategy(mode)) as one:
            one.train(3)
            one.fleet.flush()
            server.stop(1)
            server = GrpcServer(Service(), hold.endpoint, None, is_held=True)
            server.start()
            with pytest.raises(NotReadyError, match=f"server {hold.endpoint}: it was started again and has lost"):
                one.train(5)
                one.fleet.flush()
            with joined([hold.endpoint], strategy=strategy(mode)) as other:  # a new job may have it
                other.train(2)
            with pytest.raises(NotReadyError, match="was started again"):
                one.stats()
        server.stop(1)


LOST = """
    import sys, time
    sys.path.insert(0, {tests!r})
    from support.parity.training import joined
    from fleet.net import Endpoint
    open("began", "w").close()
    with joined([Endpoint.parse({endpoint!r})], 1, 3) as one:
        one.train(5)
        open("trained", "w").close()
        time.sleep(60)
"""


def test_a_worker_that_is_killed_is_named_to_those_that_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_gone, both = threading.Event(), threading.Barrier(2)

    def work(index: int) -> str:
        with joined([endpoint], index, 3) as one:
            one.train(5)
            assert is_gone.wait(LIMIT_S)
            both.wait(LIMIT_S)
            with pytest.raises(DeadlineError) as caught:
                one.train(5, 10)
            assert one.stats()[0]["version"] == 5  # it still serves
            return str(caught.value)

    with served() as ([endpoint], _):
        text = LOST.format(tests=str(Path(__file__).parents[2]), endpoint=str(endpoint))
        with running([sys.executable, script(tmp_path, text)], tmp_path, os.environ, warm=True) as lost:
            wait_until((tmp_path / "began").exists, LIMIT_S, "the worker to begin")
            waiting = started(lambda: work(0), lambda: work(2))
            wait_until((tmp_path / "trained").exists, LIMIT_S, "the worker to train")
            lost.kill()
        monkeypatch.setenv("FLEET_STEP_TIMEOUT_S", "2")
        is_gone.set()
        for each in waiting:
            assert each.result(LIMIT_S) == (
                f"server {endpoint}: waited 2 s for step 5: no gradients from worker 1. Is it slow or gone? "
                "FLEET_STEP_TIMEOUT_S sets how long to wait"
            )


def test_a_worker_that_stops_early_blocks_nobody() -> None:
    def work(index: int, num_steps: int) -> int:
        with joined([endpoint], index, 3) as one:
            one.train(num_steps)
            version = int(one.stats()[0]["version"])
            one.fleet.stop_worker()
            return version

    with served() as ([endpoint], [service]):
        assert max(in_threads(lambda: work(0, 2), lambda: work(1, 9), lambda: work(2, 0))) == 9
        assert service.finished.is_set()


def test_a_worker_that_is_started_again_goes_on_where_the_others_are() -> None:
    """What its former life had pushed of a step that was not complete is pushed again, and counts once."""
    is_back = threading.Event()

    def steady() -> dict[str, bytes]:
        with joined([endpoint], 0, 2) as one:
            one.train(4)
            assert is_back.wait(LIMIT_S)
            one.train(4, 8)
            one.fleet.stop_worker()
            return dense_of(one.model)

    def unsteady() -> dict[str, bytes]:
        with joined([endpoint], 1, 2) as one:
            one.train(4)
            lost = Gradients(4, dense=[[9 * np.ones(5, np.float32)]], lrs={0: 0.1})
            assert one.worker.client.push(lost).results()[0][0].version == 4
        with joined([endpoint], 1, 2) as one:
            is_back.set()
            one.train(4, 8)
            one.fleet.stop_worker()
            return dense_of(one.model)

    with served() as (endpoints, [service]):
        expected = [one.dense for one in train_all(endpoints, 2, "sync", num_steps=8)]
        rows = rows_of([service])
    with served() as ([endpoint], [service]):
        assert in_threads(steady, unsteady) == expected
        assert rows_of([service]) == rows


def test_a_full_disk_fails_the_save_alone(tmp_path: Path) -> None:
    with served() as ([endpoint], _), server_process(REAL, token=None) as server:
        with joined([endpoint, server.endpoint]) as one:
            one.train(3)
            one.fleet.save_persistables(tmp_path / "model")
            before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
            one.train(3, 6)
            limited = psutil.Process(server.process.pid)
            limited.rlimit(psutil.RLIMIT_FSIZE, (200, psutil.RLIM_INFINITY))
            with pytest.raises(CheckpointError, match=f"server {server.endpoint}: cannot write .*File too large; it"):
                one.fleet.save_persistables(tmp_path / "model")
            with pytest.raises(CheckpointError, match=f"server {server.endpoint}: cannot write .*File too large"):
                one.fleet.save_inference_model(tmp_path / "inference")
            one.train(6, 9)
            # What was there is there, and nothing else.
            assert [path.name for path in tmp_path.iterdir()] == ["model"]
            assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before
            limited.rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))
            one.fleet.save_persistables(tmp_path / "model")
            assert checkpoint.read_manifest(tmp_path / "model").version == 9
            one.fleet.stop_worker()
        assert server.finish() == (0, "")


def test_rows_are_saved_whole_while_others_train(tmp_path: Path) -> None:
    """Equal gradients in all columns make equal columns in every row, and in its state."""
    width, num_ids = 32, 2000
    is_over = threading.Event()

    def model() -> nn.Module:
        zeros = fleet.initializers.Constant(0.0)
        return fleet.nn.Embedding(width, table="ads", rule=fleet.rules.Adagrad(lr=0.1), initializer=zeros)

    def train() -> int:
        with joined(endpoints, 1, 2, strategy=strategy("async"), model=model()) as one:
            number = 0
            while not is_over.is_set():
                ids = torch.randint(0, num_ids, (500,))
                (one.model(ids) * torch.rand(500, 1)).sum().backward()
                one.optimizer.step()
                number += 1
            one.fleet.stop_worker()
            return number

    def save() -> int:
        try:
            with joined(endpoints, 0, 2, strategy=strategy("async"), model=model()) as one:
                wait_until(lambda: one.stats()[0]["version"] > 3, LIMIT_S, "training to begin")
                for number in range(5):
                    one.fleet.save_persistables(tmp_path / str(number))
                return 5
        finally:
            is_over.set()

    with served(2) as (endpoints, _):
        assert in_threads(train, save)[0] > 5
    for number in range(5):
        folder = tmp_path / str(number)
        num_rows = 0
        for piece in checkpoint.read_manifest(folder).tables["ads"]:
            rows = checkpoint.read_piece(folder / piece.file.name, piece.file)
            num_rows += len(rows["keys"])
            for name in ("values", "state"):
                assert (rows[name] == rows[name][:, :1]).all()
        assert num_rows > 0


@pytest.mark.parametrize("way", ["model_dir", "load_model"])
def test_training_goes_on_from_a_checkpoint_as_if_nothing_had_happened(tmp_path: Path, way: str) -> None:
    folder = tmp_path / "model"

    def work(index: int, begin: int, end: int, save: bool = False) -> dict[str, bytes]:
        with joined(endpoints, index, 2, meeting=meeting) as one:
            if begin and way == "load_model":
                assert one.fleet.load_model(folder) == len(rows)
            one.train(begin, end)
            if save and index == 0:
                one.fleet.save_persistables(folder)
            one.fleet.stop_worker()
            return dense_of(one.model)

    with Hold.any_port() as first, Hold.any_port() as second:
        meeting = [first.endpoint, second.endpoint]
        with served(2) as (endpoints, services):
            expected = in_threads(lambda: work(0, 0, 12), lambda: work(1, 0, 12))
            rows = rows_of(services)
        with served(2) as (endpoints, services):
            in_threads(lambda: work(0, 0, 6, True), lambda: work(1, 0, 6, True))
        assert checkpoint.read_manifest(folder).version == 6
        with served(3, model_dir=folder if way == "model_dir" else None) as (endpoints, services):
            assert in_threads(lambda: work(0, 6, 12), lambda: work(1, 6, 12)) == expected
            assert rows_of(services) == rows
