"""fleet.Checkpoint in a job of one worker: everything comes back, and what does not fit changes nothing."""

from __future__ import annotations

import itertools
import logging
import math
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

import fleet
from fleet.checkpoint import StepFolders, TrainingManifest
from fleet.errors import CheckpointError, CommunicationError, NotReadyError, UsageError, UsageTypeError
from fleet.runtime.training import random_states, save_store, trees

# Before there is a process group: functions of torch that are imported later keep it as the default of an argument.
from fleet.runtime.training.checkpoint import Checkpoint
from fleet.runtime.training.elements import WriteShare


@pytest.fixture(autouse=True)
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FLEET_DEVICE", "cpu")
    fleet.init(is_collective=True)
    yield
    fleet.shutdown()


class Net(nn.Module):
    """A bit of everything: tied weights, statistics, integers, bfloat16, another memory format."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.norm = nn.BatchNorm1d(4)
        self.up = nn.Linear(4, width)
        self.down = nn.Linear(width, 4)
        self.tied = nn.Linear(4, width, bias=False)
        self.tied.weight = self.up.weight
        self.short = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> Any:
        y = self.norm(self.conv(x).mean(dim=(2, 3)))
        return self.down(self.up(y) + self.tied(y)) * self.short.float().sum()


class Run:
    """A run that can be begun again: each has new objects with other values."""

    def __init__(self, folder: Path, seed: int, net: Callable[[], nn.Module] = Net, sgd: bool = False, **more: Any):
        torch.manual_seed(seed)
        self.model: Any = fleet.distributed_model(net())
        weights = [one for name, one in self.model.named_parameters() if "bias" not in name]
        biases = [one for name, one in self.model.named_parameters() if "bias" in name]
        groups: list[dict[str, Any]] = [{"params": weights, "lr": 0.1}, {"params": biases, "lr": 0.2}]
        if seed % 2:  # the same groups in another order
            groups.reverse()
        made = torch.optim.SGD(groups, 0.1) if sgd else torch.optim.Adam(groups, amsgrad=True)
        self.optimizer = fleet.distributed_optimizer(made)
        self.scheduler = torch.optim.lr_scheduler.MultiStepLR(self.optimizer, [2, 4])
        self.data = fleet.data.shard(
            torch.randn(16, 2, 5, 5, generator=torch.Generator().manual_seed(7)), 2, shuffle=True
        )
        self.plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer)
        parts: dict[str, Any] = {"scheduler": self.scheduler, "data": self.data, "extras": {"plateau": self.plateau}}
        self.checkpoint = Checkpoint(folder, model=self.model, optimizer=self.optimizer, **{**parts, **more})

    def train(self, num_steps: int) -> list[float]:
        drawn = []
        for batch in itertools.islice(self.data, num_steps):
            (self.model(batch + torch.rand(()) + random.random() + np.random.rand()) ** 2).mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.scheduler.step()
            drawn.append(random.random())
        return drawn

    def values(self) -> dict[str, Any]:
        rates = sorted(group["lr"] for group in self.optimizer.param_groups)
        found = {name: one.clone() for name, one in self.model.state_dict().items()}
        return {**found, "rates": rates, "data": self.data.state_dict(), "plateau": self.plateau.best}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(value, other[name]) if isinstance(value, torch.Tensor) else value == other[name]
        for name, value in one.items()
    )


def saved(folder: Path, **more: Any) -> Run:
    run = Run(folder, 0, **more)
    run.train(3)
    run.checkpoint.save(3)
    run.checkpoint.wait()
    return run


def test_a_run_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    first = Run(tmp_path / "c", 0)
    assert first.checkpoint.load() == 0
    first.train(3)
    first.plateau.step(0.5)
    first.checkpoint.save(3)  # while it is written, training goes on
    drawn = first.train(3)
    first.checkpoint.close()

    fleet.shutdown()
    fleet.init(is_collective=True)
    again = Run(tmp_path / "c", 1)
    assert not same(again.values(), first.values())
    assert again.checkpoint.load() == 3
    assert not same(again.values(), first.values())
    assert again.train(3) == drawn
    assert same(again.values(), first.values())
    assert again.plateau.best == 0.5
    assert again.model.module.tied.weight is again.model.module.up.weight
    state = again.optimizer.state[again.model.module.conv.weight]
    assert state["exp_avg"].is_contiguous(memory_format=torch.channels_last)


def test_other_programs_can_read_the_model(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    run = saved(tmp_path)
    found = safetensors.load_file(tmp_path / "step-00000003" / "model.worker-000-of-001.piece-0000.safetensors")
    expected = run.model.state_dict()
    assert found.keys() == expected.keys() - {"tied.weight"}
    assert all(torch.equal(one, expected[name]) for name, one in found.items())
    assert found["short"].dtype == torch.bfloat16


def test_the_loss_scale_and_the_count_of_updates_come_back(tmp_path: Path) -> None:
    strategy = fleet.DistributedStrategy()
    strategy.amp = True
    strategy.amp_configs = {"dtype": "float16"}
    fleet.init(is_collective=True, strategy=strategy)
    for step in (0, 5):
        model: Any = fleet.distributed_model(nn.Linear(2, 2))
        optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        checkpoint = Checkpoint(tmp_path, model=model, optimizer=optimizer)
        state = model.step_state
        assert checkpoint.load() == step
        if step == 0:
            state.scale.load_state_dict({"factor": 128.0, "clean": 7, "overflowed": 1})
            state.num_updates = 4
            checkpoint.save(5)
            checkpoint.close()
    assert state.scale.state_dict() == {"factor": 128.0, "clean": 7, "overflowed": 1}
    assert state.num_updates == 4


class Wider(Net):
    def __init__(self) -> None:
        super().__init__(width=5)


class More(Net):
    def __init__(self) -> None:
        super().__init__()
        self.more = nn.Linear(1, 1)


class Less(Net):
    def __init__(self) -> None:
        super().__init__()
        del self.down

    def forward(self, x: torch.Tensor) -> Any:
        return self.up(self.conv(x).mean(dim=(2, 3)))


def damage(folder: Path) -> None:
    path = next(folder.glob("step-*/optimizer.*"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def cut(folder: Path) -> None:
    path = next(folder.glob("step-*/manifest.json"))
    path.write_text(path.read_text()[:100])


def empty(folder: Path) -> None:
    next(folder.glob("step-*/own.*")).unlink()


@pytest.mark.parametrize(
    ("change", "more", "words"),
    [
        (None, {"net": Wider}, r"'up.weight' is \[4, 4\] there and \[5, 4\] in this model"),
        (None, {"net": More}, "has no 'more.weight', which this model has"),
        (None, {"net": Less}, "has 'down.bias', which this model does not have"),
        (None, {"sgd": True}, "was saved with Adam, and this optimizer is SGD"),
        (None, {"extras": {"other": Counter()}}, "must have state_dict"),
        (None, {"extras": {"other": nn.Linear(1, 1)}}, r"no extras\['other'\]"),
        (damage, {}, "optimizer.*is damaged: its checksum"),
        (cut, {}, "manifest.json is damaged: it is not JSON"),
        (empty, {}, "own.* is missing"),
    ],
)
def test_what_does_not_fit_changes_nothing(
    tmp_path: Path, change: Callable[[Path], None] | None, more: dict[str, Any], words: str
) -> None:
    saved(tmp_path)
    if change is not None:
        change(tmp_path)
    with pytest.raises((CheckpointError, UsageTypeError), match=words):
        run = Run(tmp_path, 1, **more)
        before, stream = run.values(), torch.get_rng_state()
        try:
            run.checkpoint.load()
        finally:
            assert same(before, run.values())
            assert not run.optimizer.state
            assert torch.equal(stream, torch.get_rng_state())


class Easy(Counter[str]):
    def state_dict(self) -> dict[str, int]:
        return dict(self)

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.clear()
        self.update(state)


class Picky(Easy):
    def load_state_dict(self, state: dict[str, int]) -> None:  # noqa: ARG002
        raise ValueError("not on a Sunday")


def test_an_object_that_refuses_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    saved(tmp_path, extras={"easy": Easy(a=1), "picky": Picky(a=1)})
    easy = Easy(b=2)
    run = Run(tmp_path, 1, extras={"easy": easy, "picky": Picky()})
    before = run.values()
    with pytest.raises(CheckpointError, match=r"extras\['picky'\] does not take its state back: .*not on a Sunday"):
        run.checkpoint.load()
    assert same(before, run.values())
    assert easy == {"b": 2}


def test_a_checkpoint_is_there_whatever_becomes_of_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("the file system is read-only")

    monkeypatch.setattr(logging.getLogger("fleet"), "propagate", True)
    monkeypatch.setattr(StepFolders, "prune", refuse)
    saved(tmp_path)
    assert StepFolders(tmp_path).complete() == [3]
    assert "old checkpoints stay" in caplog.text


def test_a_long_account_travels_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(save_store, "MAX_NOTE", 4)
    notes = save_store.SaveStore(dist.HashStore(), "a run")
    for text in ("", "four", "\N{SNOWMAN} and more"):
        assert notes.get_long("account/1", notes.put_long("account/1", text)) == text
    with pytest.raises(CommunicationError, match="has lost a part of account/1"):
        notes.get_long("account/1", 9)


def test_the_newest_are_kept_and_found_after_a_crash(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "step-00000001").mkdir()
    (tmp_path / "step-00000001" / "mine.txt").write_text("mine")
    run = saved(tmp_path)
    for step in (4, 5, 6):
        run.checkpoint.save(step)
    run.checkpoint.wait()
    assert StepFolders(tmp_path).complete() == [6, 5]
    # A save that died half way, and one that died between its last two renames.
    (tmp_path / ".step-00000008.writing-00000000").mkdir()
    os.rename(tmp_path / "step-00000006", tmp_path / ".step-00000006.writing-11111111")
    assert run.checkpoint.load() == 6
    run.checkpoint.save(7)
    run.checkpoint.wait()
    kept = {"notes.txt", "step-00000001", "step-00000006", "step-00000007"}
    assert set(os.listdir(tmp_path)) == kept
    assert run.checkpoint.load(6) == 6
    with pytest.raises(CheckpointError, match="no complete checkpoint of step 5; it has 7, 6"):
        run.checkpoint.load(5)
    run.checkpoint.save(1)
    with pytest.raises(CheckpointError, match="it has step 7, which a load would prefer"):
        run.checkpoint.wait()
    run.checkpoint.wait()  # told once


def test_a_save_that_fails_in_the_background_is_told_by_the_next_one(tmp_path: Path) -> None:
    run = saved(tmp_path)
    (tmp_path / "step-00000004").write_text("mine")
    run.checkpoint.save(4)
    with pytest.raises(CheckpointError, match="checkpoint step 4 was not written: .*it is a file; name a folder"):
        run.checkpoint.save(5)
    run.checkpoint.save(5)
    run.checkpoint.close()
    assert StepFolders(tmp_path).complete() == [5, 3]


def test_mistakes(tmp_path: Path) -> None:
    run = Run(tmp_path, 0, scheduler=None, extras={})
    with pytest.raises(UsageError, match="keep must be"):
        Run(tmp_path, 0, keep=0)
    with pytest.raises(UsageError, match="save takes the number of steps"):
        run.checkpoint.save(-1)
    with pytest.raises(UsageTypeError, match="model must be what fleet.distributed_model"):
        Checkpoint(tmp_path, model=nn.Linear(1, 1), optimizer=run.optimizer)
    other = fleet.distributed_model(nn.Linear(1, 1))
    with pytest.raises(UsageError, match="that the model does not have"):
        Checkpoint(tmp_path, model=other, optimizer=run.optimizer).save(1)
    vars(run.scheduler)["lr_lambda"] = len
    run.checkpoint = Checkpoint(tmp_path, model=run.model, optimizer=run.optimizer, scheduler=run.scheduler)
    with pytest.raises(UsageTypeError, match=r"\['lr_lambda'\] is a builtin_function_or_method"):
        run.checkpoint.save(1)
    run.model.step_state.merge.k_steps, run.model.step_state.merge.count = 4, 3
    with pytest.raises(UsageError, match="after 3 of the 4 batches"):
        run.checkpoint.save(1)
    assert os.listdir(tmp_path) == []


def test_a_job_with_servers_must_have_joined_them(tmp_path: Path) -> None:
    fleet.shutdown()
    fleet.init()
    model = fleet.distributed_model(nn.Linear(1, 1))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), 0.1))
    with pytest.raises(NotReadyError, match=r"fleet.Checkpoint needs the servers; call fleet.init_worker\(\) first"):
        Checkpoint(tmp_path, model=model, optimizer=optimizer)


def test_values_of_all_kinds() -> None:
    value = {"a": [1, 2.5, None, True, "x"], 3: (math.inf, Counter({4: 2})), "t": torch.arange(3), "n": 2.0}
    value["array"] = np.arange(2, dtype=np.uint32)
    kept: dict[str, torch.Tensor] = {}
    tree = trees.encode({**value, "n": np.float64(2)}, "k", kept.__setitem__, "it")
    found = trees.decode(tree, kept.__getitem__, "there")
    assert str(found) == str(value)
    assert isinstance(found[3][1], Counter)
    with pytest.raises(CheckpointError, match="is no value"):
        trees.decode({"dict": []}, kept.__getitem__, "there")


@pytest.mark.parametrize("num_workers", [1, 2, 3, 7])
def test_every_element_is_written_once(num_workers: int, tmp_path: Path) -> None:
    tensors = {"model/a": torch.zeros(700_001), "model/b": torch.zeros(()), "model/c": torch.zeros(0, 3)}
    tensors |= {"model/d": torch.zeros(300_000, dtype=torch.float64), "model/e": torch.zeros(5, 5)}
    spans, sizes = [], []
    for worker in range(num_workers):
        share = WriteShare(worker, num_workers)
        for key, tensor in tensors.items():
            share.add(key, tensor)
        copies = share.copies()
        sizes.append(sum(one.bits.nbytes for one in copies))
        spans += [one.span for one in copies]
    assert max(sizes) - min(sizes) <= 1000
    for key, tensor in tensors.items():
        own = sorted((span.begin, span.end) for span in spans if span.key == key)
        assert [begin for begin, _ in own] == [0, *(end for _, end in own[:-1])][: len(own)]
        assert sum(end - begin for begin, end in own) == tensor.numel()


def test_a_worker_that_was_not_there_gets_a_stream_of_its_own() -> None:
    state = torch.get_rng_state()
    drawn = []
    for worker in (4, 5, 4):
        random_states.derive(state, worker, torch.device("cpu"))
        drawn.append((torch.rand(1).item(), random.random(), np.random.rand()))
    assert drawn[0] == drawn[2] != drawn[1]


def test_a_manifest_of_another_kind_is_refused() -> None:
    with pytest.raises(CheckpointError, match="is not Fleet's"):
        TrainingManifest.from_text('{"format": "another"}', "it")
    with pytest.raises(
        CheckpointError, match=r"^it belongs to a checkpoint, which fleet.load_model\(\), or fleet.Checkpoint"
    ):
        TrainingManifest.from_text('{"format": "fleet-checkpoint"}', "it")
