"""The examples resnet50, transformer and bert on a GPU: batches that are copied ahead, half precision, MFU, resume."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from support.data.example_data import EXAMPLES, modules_of
from support.jobs import python, script

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.timeout(300),
]
NAMES = ("resnet50", "transformer", "bert")
PEAK = ("--peak-tflops", 100)


def trained(name: str, *options: object, cwd: Path) -> dict[str, Any]:
    python(EXAMPLES / name / "train.py", "--out", "out", *PEAK, *options, cwd=cwd)
    found: dict[str, Any] = json.loads((cwd / "out" / "result.json").read_text())
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", [(), ("--amp", "bf16", "--recompute"), ("--auto",)], ids=["plain", "half", "auto"])
def test_it_runs_and_says_how_much_of_the_card_it_used(name: str, options: tuple[str, ...], tmp_path: Path) -> None:
    found = trained(name, "--steps", 30, *options, cwd=tmp_path)
    assert found["device"] == torch.cuda.get_device_name()
    assert found["mfu"] == pytest.approx(found["tflops"] / 100)
    assert found["tflops"] > 0
    assert found["held_loss"] < 6


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_was_stopped_goes_on_behind_the_batch_in_hand(name: str, tmp_path: Path) -> None:
    options = ("--steps", 12, "--save-every", 6)
    whole = trained(name, *options, cwd=tmp_path)
    shutil.rmtree(tmp_path / "out" / "checkpoints" / "step-00000012")
    resumed = trained(name, *options, "--resume", cwd=tmp_path)
    assert resumed["loss"] == pytest.approx(whole["loss"], rel=1e-3)  # another batch has another loss
    assert resumed["held_loss"] == pytest.approx(whole["held_loss"], rel=1e-3)


def test_images_from_files(tmp_path: Path) -> None:
    with modules_of("resnet50", "make_images") as (make_images,):
        make_images.make(tmp_path / "images", {"train": 200, "val": 40}, num_classes=4, size=(80, 60))
    found = trained("resnet50", "--data", "images", "--processes", 2, "--steps", 60, "--auto", cwd=tmp_path)
    assert found["top1"] > 0.8


def test_batches_are_whole_and_in_order_while_the_device_is_busy(tmp_path: Path) -> None:
    program = f"""
        import sys
        sys.path.insert(0, {str(EXAMPLES)!r})
        import torch
        from common.ahead import Ahead
        import fleet

        fleet.init(is_collective=True)
        rows = torch.arange(64).repeat_interleave(100_000).view(64, 100_000)
        batches = Ahead(fleet.data.shard(rows, batch_size=4))
        work = torch.randn(4096, 4096, device=fleet.device)
        sums = []
        for number, batch in enumerate(batches):
            for _ in range(20):
                work = (work @ work).clamp(-1, 1)
            sums.append(batch.sum())
            assert batches.state_dict()["samples_seen"] == 4 * number + 4
        expected = rows.view(16, -1).sum(dim=1)
        assert torch.equal(torch.stack(sums).cpu(), expected)
        assert batches.state_dict() == batches.shard.state_dict()
        assert batches.shard.epoch == 1
        print("whole")
    """
    assert python(script(tmp_path, program), cwd=tmp_path).endswith("whole\n")
