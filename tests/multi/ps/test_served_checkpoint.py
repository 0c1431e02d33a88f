"""fleet.Checkpoint beside servers, workers in threads: one moment of the whole job, in every mode, or nothing."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.api import Fleet
from fleet.errors import CheckpointError, DeadlineError, UsageError
from fleet.net import Endpoint
from fleet.observe.waits import waiting
from fleet.ps.durable import saves, storage
from fleet.ps.server.service import Service
from fleet.ps.together import worker_meetings
from fleet.runtime.training.checkpoint import Checkpoint
from support.parity.training import (
    Trainer,
    batch,
    dense_of,
    exported,
    in_threads,
    joined,
    rows_of,
    served,
    strategy,
)

pytestmark = pytest.mark.timeout(120)

MODES = ["sync", "async", "half", "geo"]


def checkpoint_of(one: Trainer, folder: Path, **more: Any) -> Checkpoint:
    return Checkpoint(folder, model=one.model, optimizer=one.optimizer, **{"timeout_s": 20.0, **more})


def workers(endpoints: Sequence[Endpoint], num: int, work: Callable[[Trainer], Any], **given: Any) -> list[Any]:
    """What `work` comes to in each of so many workers."""

    def run(index: int) -> Any:
        with joined(endpoints, index, num, **given) as one:
            result = work(one)
            one.fleet.stop_worker()
            return result

    return in_threads(*(lambda index=index: run(index) for index in range(num)))


def state_of(services: Sequence[Service]) -> Any:
    """Rows and dense parameters with their state, whatever the number of servers."""
    dense = []
    for service in services:
        assert service.state.holdings is not None
        dense += [array.tobytes() for pair in service.state.holdings.snapshot() for array in pair]
    return rows_of(services), sorted(dense)


def test_a_sync_job_goes_on_bit_for_bit(tmp_path: Path) -> None:
    def whole(one: Trainer) -> Any:
        scheduler = torch.optim.lr_scheduler.ExponentialLR(one.optimizer, 0.5)
        checkpoint = checkpoint_of(one, tmp_path, scheduler=scheduler, extras={"scheduler too": scheduler})
        assert checkpoint.load() == 0
        for step in range(8):
            one.train(step, step + 1)
            scheduler.step()
            if step in (2, 4):
                checkpoint.save(step + 1)
        return dense_of(one.model)

    def rest(one: Trainer) -> Any:
        scheduler = torch.optim.lr_scheduler.ExponentialLR(one.optimizer, 0.5)
        checkpoint = checkpoint_of(one, tmp_path, scheduler=scheduler, extras={"scheduler too": scheduler}, resume=True)
        assert checkpoint.step == 5
        for step in range(checkpoint.step, 8):
            one.train(step, step + 1)
            scheduler.step()
        return dense_of(one.model)

    with served(2) as (endpoints, services):
        expected = workers(endpoints, 2, whole)
        state = state_of(services)
    with served(2) as (endpoints, services):
        assert workers(endpoints, 2, rest) == expected
        assert state_of(services) == state


class Whole(nn.Module):
    """Beside a table and layers: running statistics, a counter, a frozen layer, and two optimizers for it all."""

    seen: torch.Tensor

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.emb = fleet.nn.Embedding(4, table="ads", rule=fleet.rules.Adam(lr=0.1))
        self.norm = nn.BatchNorm1d(4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.out = nn.Linear(4, 1)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.parameters():
                if parameter.numel():
                    parameter.uniform_(-0.5, 0.5, generator=generator)

    def forward(self, ids: torch.Tensor) -> Any:
        self.seen += 1
        return self.out(self.frozen(self.norm(self.emb(ids).mean(1)))).squeeze(1)


@pytest.mark.parametrize("dense", ["server", "allreduce"])
def test_a_whole_model_goes_on_bit_for_bit(dense: str, tmp_path: Path) -> None:
    """Wherever its tensors live, and whoever has the state of its optimizers."""
    num_steps = 6

    def run(one: Fleet, until: int, seed: int) -> Any:
        model = one.distributed_model(Whole(seed))
        first = one.distributed_optimizer(torch.optim.Adam(model.norm.parameters(), lr=0.05))
        rest = [model.emb.weight, *model.frozen.parameters(), *model.out.parameters()]
        second = one.distributed_optimizer(torch.optim.Adagrad(rest, lr=0.1))
        optimizers = [first, second] if dense == "server" else [second]
        one.init_worker()
        with Checkpoint(tmp_path, model=model, optimizer=optimizers, resume=True) as checkpoint:
            for step in range(checkpoint.step, until):
                ids, target = batch(step)
                nn.functional.mse_loss(model(ids), target).backward()
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad()
                if step == 2:
                    checkpoint.save(3)
        values = {name: value.clone() for name, value in model.state_dict().items()}
        one.stop_worker()
        one.shutdown()
        return values

    def job(seed: int, until: int = num_steps) -> Any:
        one = Fleet()
        one.init(strategy=strategy(dense=dense))
        return run(one, until, seed)

    expected = job(0)
    found = job(1)
    assert found["seen"] == num_steps
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


@pytest.mark.parametrize("mode", MODES)
def test_everybodys_gradients_are_in_it(mode: str, tmp_path: Path) -> None:
    """Workers that never wait for each other, and servers that write while training goes on."""
    at = {}

    def train(one: Trainer) -> None:
        with checkpoint_of(one, tmp_path) as checkpoint:
            one.train(3)
            checkpoint.save(3)
            one.train(3, 6)

    def check(one: Trainer) -> None:
        assert checkpoint_of(one, tmp_path).load() == 3
        assert one.worker.num_steps == 3
        states = [int(state["step"]) for state in one.optimizer.inner.state.values()]
        assert states == ([3, 3] if mode == "geo" else [])  # where workers step themselves
        at[one.index] = dense_of(one.model)

    with served(2) as (endpoints, _):
        workers(endpoints, 2, train, strategy=strategy(mode))
    with served(1) as (endpoints, services):
        workers(endpoints, 2, check, strategy=strategy(mode))
        assert at[0] == at[1]
        found = exported(services[0])
        assert len(found["keys"]) == len(
            {key for step in range(3) for worker in range(2) for key in keys(step, worker)}
        )
        if mode != "geo":
            assert found["seen"].sum() == sum(len(keys(step, worker)) for step in range(3) for worker in range(2))


def keys(step: int, worker: int) -> set[int]:
    return set(batch(step, worker)[0].flatten().tolist())


@pytest.mark.parametrize("lonely", [0, 1])
def test_a_save_on_one_worker_names_the_other_at_once(lonely: int, tmp_path: Path) -> None:
    def work(one: Trainer) -> str:
        checkpoint = checkpoint_of(one, tmp_path, timeout_s=60.0)
        one.train(2)
        if one.index == lonely:
            with pytest.raises(CheckpointError) as error:
                checkpoint.save(2)
            one.train(2, 3)
            return str(error.value)
        one.train(2, 3)
        return ""

    with served(1) as (endpoints, _):
        told = workers(endpoints, 2, work)[lonely]
    assert told == (
        f"checkpoint step 2 was not written: worker {1 - lonely} went on, or left, without save(2); every worker calls "
        "it, at the same step"
    )
    assert not list(tmp_path.iterdir())


def test_a_load_on_one_worker_names_the_other(tmp_path: Path) -> None:
    def work(one: Trainer) -> str:
        checkpoint = checkpoint_of(one, tmp_path)
        if one.index == 0:
            with pytest.raises(DeadlineError) as error:
                checkpoint.load()
        one.train(1)
        return "" if one.index else str(error.value)

    with served(1) as (endpoints, _):
        told = workers(endpoints, 2, work)[0]
    assert told.startswith("worker 1 went on, or left, without checkpoint.load(); every worker calls it")


def test_a_save_that_nobody_joins_ends_in_time(tmp_path: Path) -> None:
    over = threading.Event()

    def work(one: Trainer) -> str:
        checkpoint = checkpoint_of(one, tmp_path, timeout_s=0.5)
        if one.index == 1:
            over.wait(30)
            return ""
        try:
            with pytest.raises(CheckpointError) as error:
                checkpoint.save(2)
        finally:
            over.set()
        return str(error.value)

    with served(1) as (endpoints, _):
        told = workers(endpoints, 2, work, strategy=strategy("async"))[0]
    assert re.fullmatch(r".*: waited 0.5 s for worker 1 to come to save\(2\); every worker calls it, .*", told), told


def test_a_long_wait_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("FLEET_WAIT_NOTICE_S", "0.1")
    monkeypatch.setattr(worker_meetings, "_WAIT_S", 0.1)
    told = threading.Event()
    monkeypatch.setattr(waiting, "note_wait", lambda *_: told.set())

    def work(one: Trainer) -> None:
        with checkpoint_of(one, tmp_path) as checkpoint:
            if one.index == 1:
                assert told.wait(30)
            checkpoint.save(1)

    with served(1) as (endpoints, _):
        workers(endpoints, 2, work)
    assert "worker 0 waits for worker 1 to come to save(1); 0 s so far" in caplog.text


def test_what_workers_do_not_agree_on(tmp_path: Path) -> None:
    def work(one: Trainer) -> list[str]:
        told = []
        try:
            checkpoint_of(one, tmp_path / str(one.index))
        except UsageError as error:
            told.append(str(error))
        checkpoint = checkpoint_of(one, tmp_path / "same")
        broken = checkpoint_of(one, tmp_path / "same", data=Broken(one.index))
        for which, step in ((checkpoint, 1 + one.index), (broken, 1)):
            try:
                which.save(step)
            except (CheckpointError, ZeroDivisionError) as error:
                told.append(str(error))
        return told

    with served(1) as (endpoints, _):
        first, second = workers(endpoints, 2, work)
    assert first[0] == second[0]
    assert "worker 1 has" in first[0]
    assert first[1].endswith("worker 1 saves step 2 while worker 0 saves step 1; save the same step on every worker")
    assert second[1].endswith(first[1].partition("written: ")[2])
    assert (first[2], second[2]) == (
        "checkpoint step 1 was not written: worker 1: division by zero",
        "division by zero",
    )


class Broken:
    """A position in the data that worker 1 cannot tell."""

    def __init__(self, worker: int) -> None:
        self._worker = worker

    def state_dict(self) -> float:
        return 1 / (1 - self._worker)

    def load_state_dict(self, state: object) -> None: ...


def test_a_write_that_fails_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers copy, training goes on, and the error comes where the save is waited for, on every worker."""
    write = storage.write

    def fail(contents: storage.ServerContents, path: Path, *more: Any) -> str:
        if "step-00000002" in path.name and contents.holdings.server == 1:
            raise ZeroDivisionError
        return write(contents, path, *more)

    monkeypatch.setattr(storage, "write", fail)

    def work(one: Trainer) -> str:
        checkpoint = checkpoint_of(one, tmp_path)
        one.train(1)
        checkpoint.save(1)
        one.train(1, 2)
        checkpoint.save(2)
        one.train(2, 3)
        with pytest.raises(CheckpointError) as error:
            checkpoint.wait()
        checkpoint.save(3)
        checkpoint.close()
        return str(error.value)

    with served(2) as (endpoints, _):
        told = workers(endpoints, 2, work)
    assert told[0] == told[1]
    assert re.fullmatch(r"checkpoint step 2 was not written: server .*: a save into .* failed: Zero.*", told[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000001", "step-00000003"]


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize("has_room", [True, False])
def test_training_goes_on_while_servers_write(
    background: bool, has_room: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write, steps = threading.Event(), []
    write = storage.write

    def slowly(*arguments: Any) -> str:
        if background and has_room:
            assert may_write.wait(30)
        steps.append("written")
        return write(*arguments)

    monkeypatch.setattr(storage, "write", slowly)
    if not has_room:
        monkeypatch.setattr(saves, "free_bytes", lambda: 0)

    def work(one: Trainer) -> None:
        checkpoint = checkpoint_of(one, tmp_path, background=background)
        one.train(1)
        checkpoint.save(1)
        one.train(1, 3)
        steps.append("trained")
        may_write.set()
        checkpoint.close()

    with served(1) as (endpoints, _):
        workers(endpoints, 1, work)
    assert steps == (["trained", "written"] if background and has_room else ["written", "trained"])


def test_every_worker_saves_and_worker_0_writes(tmp_path: Path) -> None:
    """The other calls: all workers may make them, or worker 0 alone."""

    def work(one: Trainer) -> tuple[list[str], str]:
        paths: list[object] = []
        for number in range(2):
            one.train(number, number + 1)
            paths.append(one.fleet.save_persistables(tmp_path / "saved"))
            paths.append(one.fleet.save_inference_model(tmp_path / "served"))
        if one.index == 0:
            paths.append(one.fleet.save_persistables(tmp_path / "alone"))
        one.train(2, 3)
        with pytest.raises(CheckpointError) as error:
            one.fleet.save_persistables(tmp_path / "saved" / "manifest.json" / "x")
        return [str(path) for path in paths], str(error.value)

    with served(2) as (endpoints, _):
        (first, failure), (second, other) = workers(endpoints, 2, work)
    assert first == [*second, str(tmp_path / "alone")]
    assert "failed on worker 0: " in other
    assert failure in other


def test_another_worker_alone_is_told_of_worker_0(tmp_path: Path) -> None:
    def work(one: Trainer) -> str:
        one.train(1)
        if one.index == 1:
            with pytest.raises(CheckpointError) as error:
                one.fleet.save_persistables(tmp_path / "saved")
        one.train(1, 2)
        return str(error.value) if one.index == 1 else ""

    with served(1) as (endpoints, _):
        told = workers(endpoints, 2, work)[1]
    assert told == (
        f"fleet.save_persistables(): worker 0 writes for all, and has not written {tmp_path / 'saved'}: worker 0 went "
        "on, or left, without fleet.save_persistables(); every worker calls it, at the same step, and gives the same "
        "folder"
    )
