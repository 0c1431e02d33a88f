"""What a checkpoint has of buffers to which a model gives another tensor, as `self.steps = self.steps + 1` does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import fleet
from fleet.errors import CheckpointError, UsageError
from fleet.ps.worker.sending.kept_tensors import ChangedTensors, keep
from support.parity.training import Trainer, joined, strategy

pytestmark = pytest.mark.timeout(60)


class Counting(nn.Module):
    """A layer that counts its steps and remembers what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(2, 1)
        self.steps: torch.Tensor
        self.seen: torch.Tensor
        self.cache: torch.Tensor
        self.register_buffer("steps", torch.tensor(0))
        self.register_buffer("seen", torch.zeros(2))
        self.register_buffer("cache", torch.zeros(1), persistent=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.steps = self.steps + 1
            self.seen = 0.5 * self.seen + inputs.mean(0)
            self.cache = torch.zeros(len(self.cache) + 1)
        result: torch.Tensor = self.out(inputs)
        return result


def train(one: Trainer, steps: int) -> None:
    for _ in range(steps):
        one.optimizer.zero_grad()
        one.model(torch.ones(3, 2)).sum().backward()
        one.optimizer.step()


@pytest.mark.parametrize("call", ["save_persistables", "Checkpoint", "save_inference_model"])
def test_the_present_tensor_is_saved_and_loaded(tmp_path: Path, call: str) -> None:
    with joined(model=Counting()) as one:
        train(one, 3)
        if call == "Checkpoint":
            with fleet.Checkpoint(tmp_path, model=one.model, optimizer=one.optimizer) as saved:
                saved.save(3)
        else:
            getattr(one.fleet, call)(tmp_path / "saved")
    if call == "save_inference_model":
        values = fleet.checkpoint.read_inference(tmp_path / "saved").dense
        assert (int(values["steps"]), values["seen"].tolist()) == (3, [1.75, 1.75])
        return
    with joined(model=Counting()) as other:
        train(other, 1)
        if call == "Checkpoint":
            fleet.Checkpoint(tmp_path, model=other.model, optimizer=other.optimizer, resume=True)
        else:
            other.fleet.load_model(tmp_path / "saved")
        assert isinstance(other.model, Counting)
        assert int(other.model.steps) == 3
        np.testing.assert_array_equal(other.model.seen, [1.75, 1.75])


def test_what_a_script_changes_goes_with_pushes_if_it_is_small(caplog: pytest.LogCaptureFixture) -> None:
    model, again = Counting(), Counting()
    for one in (model, again):
        one.register_buffer("large", torch.zeros(1000))
        one.register_buffer("table", torch.arange(4))  # which nothing changes
    changed = ChangedTensors(keep(model.named_buffers(), 1, model))
    assert changed.state() == {}
    for _ in range(3):
        model(torch.ones(3, 2))
        model.get_buffer("large").add_(1)
        stored = changed.state()
        assert changed.state() == stored
    assert set(stored) == {"steps", "seen"}  # and not the one that changes its form
    assert len(caplog.messages) == 1
    assert "'large' is changed by the script and takes more than 3072 bytes" in caplog.text
    ChangedTensors(keep(again.named_buffers(), 1, again)).restore(json.loads(json.dumps(stored)))
    assert (int(again.steps), again.seen.tolist()) == (3, [1.75, 1.75])
    assert not again.get_buffer("large").any()


def test_another_form_is_an_error(tmp_path: Path) -> None:
    with joined(model=Counting()) as one:
        one.model.seen = torch.zeros(5)
        with pytest.raises(UsageError, match=r"'seen' is float32\[5\] now, and was float32\[2\] in fleet.init_worker"):
            one.fleet.save_persistables(tmp_path / "saved")
        assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize(("was", "now"), [("geo", "sync"), ("async", "geo")])
def test_a_checkpoint_of_a_mode_with_the_state_elsewhere_names_the_modes(tmp_path: Path, was: str, now: str) -> None:
    with joined(model=Counting(), strategy=strategy(was)) as one:
        one.fleet.save_persistables(tmp_path / "saved")
    with joined(model=Counting(), strategy=strategy(now)) as other:
        with pytest.raises(
            CheckpointError, match=f"was saved in {was} mode and this job is in {now} mode: in geo mode"
        ):
            other.fleet.load_model(tmp_path / "saved")
