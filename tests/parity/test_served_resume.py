"""A run beside servers that was killed and goes on, in any number of servers and workers, comes to the same bits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.checkpoint import Inference, read_inference
from support.durable import served_checkpoint_job
from support.jobs import fleetrun

pytestmark = pytest.mark.timeout(300)

PROGRAM = Path(served_checkpoint_job.__file__)


def run(folder: Path, saved: Path, name: str, servers: int, workers: int, how: str = "") -> tuple[int, Path]:
    """The exit code of a job, and where its outcome is."""
    out = folder / name
    out.mkdir()
    where = ("--server_num", servers, "--worker_num", workers)
    done = fleetrun(*where, PROGRAM, saved, out, *filter(None, [how]), cwd=out, warm=True)
    return done.code, out


def report(out: Path, worker: int = 0) -> Any:
    return json.loads((out / f"{worker}.json").read_text())


def same(one: Inference, other: Inference) -> bool:
    assert one.tables.keys() == other.tables.keys()
    assert one.dense.keys() == other.dense.keys()
    pairs = [(one.dense[name], other.dense[name]) for name in one.dense]
    for name, (keys, values) in one.tables.items():
        pairs += [(keys, other.tables[name][0]), (values, other.tables[name][1])]
    return all(np.array_equal(mine, theirs) for mine, theirs in pairs)


def test_a_run_that_was_killed_goes_on_in_any_world(tmp_path: Path) -> None:
    code, whole = run(tmp_path, tmp_path / "whole", "whole.out", 2, 2)
    assert code == 0
    right = read_inference(whole / "model")
    saved = tmp_path / "saved"
    code, _ = run(tmp_path, saved, "killed.out", 2, 2, "KILL")
    assert code == 137
    assert sorted(path.name for path in saved.iterdir()) == ["step-00000003", "step-00000006"]
    for servers, workers in ((2, 2), (3, 1)):
        again = shutil.copytree(saved, tmp_path / f"{servers}{workers}")
        code, out = run(tmp_path, again, f"{servers}{workers}.out", servers, workers)
        assert code == 0
        assert report(out)["begin"] == 6
        assert report(out)["lr"] == report(whole)["lr"]
        assert same(read_inference(out / "model"), right)
        if workers == 2:  # the random numbers of each worker go on too
            for worker in range(2):
                assert report(out, worker)["drawn"] == report(whole, worker)["drawn"][6:]
