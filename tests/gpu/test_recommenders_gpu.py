"""The trainer of recommenders on a GPU: in one process, in half precision, and with servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from support.jobs import fleetrun, python

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.timeout(300),
]
TRAIN = Path(__file__).parents[2] / "examples" / "recommenders" / "train.py"
SMALL = ("--dim", 8, "--batch-size", 250, "--lr", 5e-3, "--row-lr", 0.1, "--out", "out")


@pytest.mark.parametrize(
    ("model", "data", "metric", "least"),
    [
        ("deepfm", "synthetic:20000", "AUC", 0.72),
        ("din", "sessions:20000", "AUC", 0.58),
        ("esmm", "sessions:20000", "AUC", 0.54),
        ("sasrec", "sessions:20000", "HR@10", 0.3),
        ("two_tower", "sessions:20000", "HR@10", 0.08),
    ],
)
@pytest.mark.parametrize("precision", [(), ("--amp",)], ids=["float32", "amp"])
def test_it_learns_in_one_process(
    tmp_path: Path, model: str, data: str, metric: str, least: float, precision: tuple[str, ...]
) -> None:
    python(TRAIN, "--model", model, "--data", data, *SMALL, *precision, cwd=tmp_path)
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert found["device"] == "cuda"
    assert found[metric] > least


def test_it_learns_beside_servers(tmp_path: Path) -> None:
    options = ("--model", "dnn", "--data", "synthetic:20000:clicks", *SMALL)
    job = fleetrun("--server_num", 2, "--worker_num", 2, "--device", "cuda", TRAIN, *options, cwd=tmp_path)
    assert job.code == 0, job.err
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert found["device"] == "cuda"
    assert found["AUC"] > 0.72
