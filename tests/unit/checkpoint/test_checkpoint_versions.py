"""Checkpoints of the version without checksums of their own still load; damage that only a list of steps shows."""

from __future__ import annotations

import json
import logging
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.checkpoint import read_piece
from fleet.checkpoint.files.files import check_file
from fleet.errors import CheckpointError
from fleet.runtime.training.checkpoint import Checkpoint
from support.durable.saved_kinds import KINDS

OLD = ["fleet.Checkpoint", "fleet.Checkpoint beside servers", "save_persistables", "inference copy"]


@pytest.fixture(autouse=True)
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FLEET_DEVICE", "cpu")
    yield
    fleet.shutdown()


def make_old(folder: Path) -> None:
    """Rewrite every manifest as the first version wrote it."""
    for path in [*folder.rglob("manifest.json"), *folder.rglob("inference.json")]:
        document = json.loads(path.read_text())
        del document["checksum"], document["save"]
        document["format_version"] = 1
        _old_sums(document, path.parent)
        path.write_text(json.dumps(document, indent=1))


def _old_sums(value: Any, folder: Path) -> None:
    if isinstance(value, dict) and "size_bytes" in value:
        del value["checksum"]
        value["crc32"] = zlib.crc32((folder / value["name"]).read_bytes())
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            _old_sums(one, folder)


@pytest.mark.parametrize("kind", OLD)
def test_the_first_version_is_read(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "fleet.checkpoint")
    with KINDS[kind](tmp_path) as subject:
        subject.renew()
        subject.load()
        right = subject.state()
        subject.reset()
        before = subject.state()
        subject.renew()
        make_old(subject.work)
        assert "without a checksum of its own" not in caplog.text
        subject.load()
        assert subject.state() == right
        assert "without a checksum of its own" in caplog.text
        subject.reset()
        for path in sorted(subject.work.rglob("*")):
            if path.suffix in (".safetensors", ".npy"):
                good = path.read_bytes()
                path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
                with pytest.raises(CheckpointError, match=f"{path.name} is damaged: its checksum is crc32:"):
                    subject.load()
                assert subject.state() == before
                path.write_bytes(good)


class Run:
    """A run with one number to save."""

    def __init__(self, folder: Path) -> None:
        fleet.init(is_collective=True)
        self.model: Any = fleet.distributed_model(nn.Linear(1, 1))
        self.optimizer = fleet.distributed_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.5))
        self.checkpoint = Checkpoint(folder, model=self.model, optimizer=self.optimizer, best="min", keep=9)

    def save(self, step: int, metric: float) -> None:
        nn.init.constant_(self.model.module.weight, step)
        self.checkpoint.save(step, metric=metric)
        self.checkpoint.wait()

    @property
    def value(self) -> float:
        return float(self.model.module.weight)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run(tmp_path)
    for step, metric in ((1, 0.5), (2, 0.1), (3, 0.3)):
        made.save(step, metric)
    return made


def test_the_best_is_not_another_because_its_manifest_is_damaged(run: Run, tmp_path: Path) -> None:
    assert run.checkpoint.load(best=True) == 2
    path = tmp_path / "step-00000002/manifest.json"
    path.write_text(path.read_text().replace("0.1", "0.9"))
    with pytest.raises(CheckpointError, match="step-00000002/manifest.json is damaged: its checksum is"):
        run.checkpoint.load(best=True)
    assert run.value == 2
    run.save(4, 0.4)  # who saves goes on
    assert run.checkpoint.load() == 4


def test_a_step_without_its_manifest_is_not_passed_over(run: Run, tmp_path: Path) -> None:
    (tmp_path / "step-00000003/manifest.json").unlink()
    with pytest.raises(CheckpointError, match="step-00000003 is damaged: it has files .* but no manifest.json"):
        run.checkpoint.load()
    assert run.value == 3
    assert run.checkpoint.load(2) == 2
    shutil.rmtree(tmp_path / "step-00000003")
    assert run.checkpoint.load() == 2
    (tmp_path / "step-00000009").mkdir()  # empty: nobody's
    assert run.checkpoint.load() == 2


def test_a_file_of_another_save_is_called_that(run: Run, tmp_path: Path) -> None:
    one, two = (tmp_path / f"step-0000000{step}" for step in (1, 2))
    name = next(path.name for path in one.glob("model.*"))
    saves = [json.loads((folder / "manifest.json").read_text())["save"] for folder in (one, two)]
    assert len({*saves, ""}) == 3
    shutil.copy(one / name, two / name)
    with pytest.raises(CheckpointError, match=f"{name} is damaged: .*; it is a file of save {saves[0]}, .*{saves[1]}$"):
        run.checkpoint.load(2)


def test_each_file_says_which_save_it_is_of(run: Run, tmp_path: Path) -> None:
    manifest = run.checkpoint._steps.read(2)[1]
    for piece in manifest.pieces:
        path = tmp_path / "step-00000002" / piece.file.name
        check_file(path, piece.file)
        assert read_piece(path, piece.file)
        assert f'"save":"{manifest.save}"'.encode() in path.read_bytes()
