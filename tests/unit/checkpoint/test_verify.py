"""`python -m fleet.checkpoint verify`: one line about what is whole, and an exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fleet.runtime.training.checkpoint import Checkpoint
from fleet_tools.commands.verify_checkpoint import main
from support.parity.training import joined, served


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `steps`, of fleet.Checkpoint beside two servers, `one` save of them, and an `inference` copy."""
    root = tmp_path_factory.mktemp("saved")
    torch.manual_seed(0)
    with served(2) as (endpoints, _), joined(endpoints) as one:
        one.train(0, 3)
        for step in (1, 2):
            with Checkpoint(root / "steps", model=one.model, optimizer=one.optimizer) as checkpoint:
                checkpoint.save(step)
        one.fleet.save_persistables(root / "one")
        one.fleet.save_inference_model(root / "inference")
    return root


def said(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["verify", str(folder)])
    found = capsys.readouterr()
    text = found.out + found.err
    assert text.count("\n") == 1
    return code, text


@pytest.mark.parametrize(
    ("name", "what"),
    [("one", "one, checkpoint of"), ("inference", "inference, inference copy of"), ("steps", "step-0")],
)
def test_what_is_whole_and_what_is_not(name: str, what: str, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = saved / name
    code, text = said(folder, capsys)
    assert code == 0
    assert text.startswith(f"{folder} is whole: {what}")
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in files:
        data = path.read_bytes()
        changed = bytearray(data)
        changed[len(data) // 2] ^= 1
        path.write_bytes(changed)
        code, text = said(folder, capsys)
        path.write_bytes(data)
        assert code == 1
        assert text.startswith(f"{folder} is not whole: ")
        assert str(path) in text
        assert ("whole is: step-" in text) == (name == "steps")
    path = next(path for path in files if path.suffix == ".json")
    moved = path.rename(path.with_name("elsewhere"))
    assert said(folder, capsys)[0] == (1 if name == "steps" else 2)
    moved.rename(path)
    assert said(folder, capsys)[0] == 0


def test_what_is_no_save(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(tmp_path / "no", capsys) == (
        2,
        f"checkpoint: {tmp_path / 'no'} is no folder; give the one that was saved\n",
    )
    assert "nothing was saved in" in said(tmp_path, capsys)[1]
    (tmp_path / "server-0").mkdir()
    (tmp_path / "server-0" / "journal-00000000000000000001.log").touch()
    assert f"use fleetrun --verify-journal {tmp_path}" in said(tmp_path, capsys)[1]
    assert main([]) == 2
    command = [sys.executable, "-m", "fleet.checkpoint", "verify", str(saved / "one")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{saved / 'one'} is whole: one, checkpoint of ")
