"""fleet.Checkpoint in one process, of a collective job and beside servers: resume, the best, and what does not fit."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.checkpoint import StepFolders, TrainingManifest
from fleet.errors import CheckpointError, NotReadyError, UsageError, UsageTypeError
from fleet.runtime.training.checkpoint import Checkpoint


class Values:
    """Values of the user's own."""

    def __init__(self, **values: Any) -> None:
        self.values = values

    def state_dict(self) -> dict[str, Any]:
        return self.values

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.values = state


class Run:
    """A run in a job of its own, with other values than the one before."""

    def __init__(
        self, kind: str, *, net: type[nn.Module] | None = None, optimizer: Any = torch.optim.Adagrad, **more: Any
    ) -> None:
        fleet.shutdown()
        fleet.init(is_collective=kind == "collective")
        made: nn.Module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)) if net is None else net()
        self.model: Any = fleet.distributed_model(made)
        self.optimizer = fleet.distributed_optimizer(optimizer(self.model.parameters(), lr=0.5, **more))
        if kind == "servers":
            fleet.init_worker()

    def train(self) -> None:
        self.model(torch.ones(3, 2)).mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def checkpoint(self, folder: Path, **more: Any) -> Checkpoint:
        return Checkpoint(folder, model=self.model, optimizer=self.optimizer, **more)

    def values(self) -> list[Any]:
        return [one.tolist() for one in self.model.parameters()]


@pytest.fixture(autouse=True)
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FLEET_DEVICE", "cpu")
    yield
    fleet.shutdown()


@pytest.fixture(params=["collective", "servers"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def steps_in(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in folder.iterdir())


def test_resume_loads_the_newest_and_says_where(kind: str, tmp_path: Path) -> None:
    run = Run(kind)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    checkpoint = run.checkpoint(tmp_path, extras={"mine": Values(best=0.5, names=["a"]), "scaler": scaler}, resume=True)
    assert checkpoint.step == 0
    for step in range(1, 4):
        run.train()
        checkpoint.save(step)
        assert checkpoint.step == step
    checkpoint.close()
    expected = run.values()
    run.train()
    further = run.values()

    again, mine = Run(kind), Values()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    assert again.values() != expected
    checkpoint = again.checkpoint(tmp_path, extras={"mine": mine, "scaler": scaler}, resume=True)
    assert checkpoint.step == 3
    assert again.values() == expected
    assert mine.values == {"best": 0.5, "names": ["a"]}
    assert scaler.get_scale() == 8.0
    again.train()
    assert again.values() == further


@pytest.mark.parametrize(("best", "expected"), [("max", 2), ("min", 3)])
def test_the_best_is_never_deleted(kind: str, best: Any, expected: int, tmp_path: Path) -> None:
    run, values = Run(kind), {}
    checkpoint = run.checkpoint(tmp_path, keep=1, best=best)
    assert checkpoint.best_step is None
    with pytest.raises(CheckpointError, match=r"no checkpoint with a metric; save\(step, metric=...\) gives one"):
        checkpoint.load(best=True)
    for step, metric in enumerate([0.5, 0.75, 0.25, 0.5, 0.75, 0.25, None], 1):
        run.train()
        values[step] = run.values()
        checkpoint.save(step, metric)
    checkpoint.wait()
    assert steps_in(tmp_path) == sorted([expected, 7])
    assert checkpoint.best_step == expected
    assert checkpoint.load(best=True) == checkpoint.step == expected
    assert run.values() == values[expected]
    assert checkpoint.load() == 7


class Pruned(StepFolders):
    """Worker 0 deletes a step while this one looks for the best."""

    def read(self, step: int) -> tuple[Path, TrainingManifest]:
        if step == 1:
            self.prune(1)
        return super().read(step)


def test_the_best_is_found_while_another_worker_deletes_old_ones(tmp_path: Path) -> None:
    checkpoint = Run("collective").checkpoint(tmp_path, keep=2, best="max")
    for step in (1, 2):
        checkpoint.save(step, metric=0.5 + step)
    checkpoint.wait()
    assert Pruned(tmp_path).best("max") == 2
    assert steps_in(tmp_path) == [2]


def test_metrics_that_are_none(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = Run(kind)
    plain = run.checkpoint(tmp_path)
    with pytest.raises(UsageError, match="give fleet.Checkpoint best='max' or 'min'"):
        plain.save(1, metric=0.5)
    with pytest.raises(UsageError, match="Give fleet.Checkpoint best='max' or best='min'"):
        _ = plain.best_step
    with pytest.raises(UsageError, match="best must be 'max', 'min' or None, got 'most'"):
        run.checkpoint(tmp_path, best="most")
    checkpoint = run.checkpoint(tmp_path, best="max")
    with pytest.raises(UsageTypeError, match="metric must be a number, got 'good'"):
        checkpoint.save(1, metric="good")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="give a step or best=True, not both"):
        checkpoint.load(1, best=True)
    with caplog.at_level(logging.WARNING):
        checkpoint.save(1, metric=float("nan"))
    assert "this checkpoint is never the best" in caplog.text
    checkpoint.save(2, metric=torch.tensor(0.5))  # type: ignore[arg-type]
    checkpoint.wait()
    assert checkpoint.best_step == 2


def test_a_save_in_the_foreground(kind: str, tmp_path: Path) -> None:
    checkpoint = Run(kind).checkpoint(tmp_path, background=False)
    checkpoint.save(1)
    assert steps_in(tmp_path) == [1]


def test_checkpoints_of_the_other_kind(tmp_path: Path) -> None:
    for kind, where in (("collective", tmp_path / "c"), ("servers", tmp_path / "s")):
        Run(kind).checkpoint(where, background=False).save(1)
    with pytest.raises(CheckpointError, match="or fleet.Checkpoint in a job with servers, reads"):
        Run("collective").checkpoint(tmp_path / "s").load()
    served = Run("servers")
    with pytest.raises(
        CheckpointError, match="belongs to a training checkpoint, which fleet.Checkpoint in a collective"
    ):
        served.checkpoint(tmp_path / "c").load()
    with pytest.raises(
        CheckpointError, match="belongs to a training checkpoint, which fleet.Checkpoint in a collective"
    ):
        fleet.load_model(tmp_path / "c" / "step-00000001")
    fleet.load_model(tmp_path / "s" / "step-00000001")  # tables and layers without the rest
    fleet.save_persistables(tmp_path / "p" / "step-00000001")
    with pytest.raises(
        CheckpointError, match=r"but no state of a run: fleet.save_persistables\(\) wrote it; fleet.load"
    ):
        served.checkpoint(tmp_path / "p").load()


class Rows(nn.Module):
    """A table and a layer."""

    width, rule, name = 2, fleet.rules.Adagrad(lr=0.5), "ads"

    def __init__(self) -> None:
        super().__init__()
        self.rows = fleet.nn.Embedding(self.width, self.name, rule=self.rule)
        self.layer = nn.Linear(self.width, 1)

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(self.rows(x.long()).sum(1))


class Wide(Rows):
    width = 3


class Ruled(Rows):
    rule = fleet.rules.Adam(lr=0.5)


class Named(Rows):
    name = "other"


class Layered(Rows):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)


class Deep(Rows):
    def __init__(self) -> None:
        super().__init__()
        self.more = nn.Linear(1, 1)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (
            {"net": Wide},
            "table 'ads' does not fit .*: width is 3 here and 2 in the checkpoint; declare the table as it",
        ),
        ({"net": Ruled}, "table 'ads' does not fit .*: rule is 'adam' here and 'adagrad' in the checkpoint"),
        ({"net": Named}, "has no table 'other'; its tables: 'ads'"),
        (
            {"net": Layered},
            r"'layer.weight' is \[1, 2\] there and \[2, 2\] in this model; load it into the model it is",
        ),
        ({"net": Deep}, "'more.weight' is not there; load it into the model it is of"),
        ({"optimizer": torch.optim.Adam}, "was saved with Adagrad, and this optimizer is Adam; use the same class"),
    ],
)
def test_what_does_not_fit_changes_nothing(what: dict[str, Any], message: str, tmp_path: Path) -> None:
    first = Run("servers", net=Rows)
    first.train()
    first.checkpoint(tmp_path, background=False).save(1)
    other = Run("servers", **{"net": Rows, **what})
    other.train()
    before = other.values(), fleet.server_stats()[0]["tables"]
    with pytest.raises(CheckpointError, match=message):
        other.checkpoint(tmp_path).load()
    assert (other.values(), fleet.server_stats()[0]["tables"]) == before


def test_settings_that_servers_were_told_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = Run("servers", net=Rows, weight_decay=0.125)
    first.optimizer.param_groups[0]["lr"] = 0.25
    first.checkpoint(tmp_path, background=False).save(1)
    again = Run("servers", net=Rows, weight_decay=0.0)
    with caplog.at_level(logging.WARNING):
        assert again.checkpoint(tmp_path).load() == 1
    assert (
        "weight_decay of Adagrad was 0.125 and is 0.0 now, which is what the servers were told; it stays" in caplog.text
    )
    assert again.optimizer.param_groups[0]["lr"] == 0.25
    again.train()


def test_an_optimizer_that_is_not_fleets_an_update_that_is_not_complete_a_worker_that_has_left(tmp_path: Path) -> None:
    run = Run("servers", net=Rows)
    with pytest.raises(UsageTypeError, match=r"optimizer must be what fleet.distributed_optimizer\(\) returned"):
        Checkpoint(tmp_path, model=run.model, optimizer=torch.optim.SGD(run.model.parameters(), 0.1))
    checkpoint = run.checkpoint(tmp_path)
    run.model(torch.ones(3, 2)).mean().backward()
    with pytest.raises(UsageError, match=r"save\(1\) comes between backward\(\) and optimizer.step\(\); save when"):
        checkpoint.save(1)
    run.optimizer.step()
    checkpoint.save(1)
    fleet.stop_worker()  # finishes the save first
    assert steps_in(tmp_path) == [1]
    with pytest.raises(
        NotReadyError, match=r"checkpoint.save\(2\): this worker has left the servers; move the call before"
    ):
        checkpoint.save(2)


def test_data_that_is_read_ahead_goes_on_at_the_batch_that_was_not_trained(tmp_path: Path) -> None:
    run = Run("servers", net=Rows)
    samples = torch.arange(10).view(10, 1)
    shard = fleet.data.shard(samples, 2)
    checkpoint = run.checkpoint(tmp_path, data=shard, keep=9)
    seen: list[list[Any]] = []
    for batch in fleet.prefetch(shard, run.model):
        seen.append(batch.tolist())
        checkpoint.save(len(seen))
    checkpoint.wait()
    for step in range(1, 6):
        assert checkpoint.load(step) == step
        left = [batch.tolist() for batch in shard] if step < 5 else []
        assert seen[:step] + left == seen


def test_data_that_is_read_ahead_through_a_generator(tmp_path: Path) -> None:
    """What is wrapped around the data of a checkpoint does not hide that a batch was read ahead."""
    run = Run("servers", net=Rows)
    shard = fleet.data.shard(torch.arange(10).view(10, 1), 2)
    checkpoint = run.checkpoint(tmp_path, data=shard, keep=9)
    seen: list[list[Any]] = []
    for batch in fleet.prefetch((batch for batch in shard), run.model):
        seen.append(batch.tolist())
        checkpoint.save(len(seen))
    checkpoint.wait()
    for step in range(1, 5):
        assert checkpoint.load(step) == step
        assert seen[:step] + [batch.tolist() for batch in shard] == seen


def test_a_loop_with_prefetch_that_is_left_loses_no_batch(tmp_path: Path) -> None:
    run = Run("servers", net=Rows)
    shard = fleet.data.shard(torch.arange(10).view(10, 1), 2)
    checkpoint = run.checkpoint(tmp_path, data=shard)
    seen: list[Any] = []
    for stop in (1, 3, 5):
        for batch in fleet.prefetch(shard, run.model):
            seen += batch.flatten().tolist()
            if len(seen) == 2 * stop:
                break
        if stop == 3:
            checkpoint.save(3)
            checkpoint.wait()
    assert seen == list(range(10))
    checkpoint.load(3)
    assert [row for batch in shard for row in batch.flatten().tolist()] == list(range(6, 10))
    shard.load_state_dict({**shard.state_dict(), "epoch": 0, "samples_seen": 2})  # moved: nothing is left over
    assert next(iter(fleet.prefetch(shard, run.model))).flatten().tolist() == [2, 3]
