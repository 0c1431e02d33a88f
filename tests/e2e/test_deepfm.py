"""docs/deepfm.md as a reader would follow it: train, kill in the middle of an epoch, go on, serve."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import numpy as np
import pytest

from fleet import checkpoint
from support.jobs import RunningJob, fleetrun, python
from support.processes import wait_until

pytestmark = pytest.mark.timeout(240)
PAGE = Path(__file__).parents[2] / "docs" / "deepfm.md"
DATA, TRAIN, SERVE = re.findall(r"```Python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
JOB = ("--server_num", 2, "--worker_num", 2, "train.py", "train.tsv", "test.tsv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"data.py": DATA, "train.py": TRAIN, "serve.py": SERVE}.items():
        (tmp_path / name).write_text(text)
    python("data.py", cwd=tmp_path, warm=True)
    return tmp_path


def test_it_is_as_short_as_the_page_says() -> None:
    assert len(TRAIN.splitlines()) + len(SERVE.splitlines()) <= 80


def test_killed_and_started_again_it_is_the_same_model(folder: Path) -> None:
    whole = fleetrun(*JOB, cwd=folder, warm=True)
    assert whole.code == 0, whole.err
    (folder / "model").rename(folder / "whole")
    (folder / "runs").rename(folder / "others")
    with RunningJob(JOB, folder, warm=True) as job:
        first = folder / "runs" / "step-00000020"
        wait_until(first.exists, 60, "the first checkpoint")
        job.send(signal.SIGKILL)
        job.finish()
    assert not (folder / "model").exists()
    again = fleetrun(*JOB, cwd=folder, warm=True)
    assert again.code == 0, again.err
    assert re.search(r"going on from \S+/runs/step-000000\d\d", again.out + again.err)
    assert re.search(r"AUC 0\.8\d+ on unseen clicks", again.out)
    wanted, found = checkpoint.read_inference(folder / "whole"), checkpoint.read_inference(folder / "model")
    assert wanted.dense.keys() == found.dense.keys()
    for name, array in wanted.dense.items():
        np.testing.assert_array_equal(found.dense[name], array, err_msg=name)
    for name, (keys, values) in wanted.tables.items():
        np.testing.assert_array_equal(found.tables[name][0], keys)
        np.testing.assert_array_equal(found.tables[name][1], values)
    said = python("serve.py", "test.tsv", cwd=folder, warm=True)
    assert re.match(r"tensor\(\[0\.\d+, ", said)
    assert "grad_fn" not in said
