"""The Python of a guide is one program; a reader who copies it gets one that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.jobs import python, script

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "checkpoints.md": ["saved at step 100 in epoch 3 and best at step "],
    "collective.md": ["loss 0."],
    "data.md": [
        "loss 0.0000 after 3 epochs of 32 batches\n",
        "epoch 3 from sample 160\n",
        "nobody does better than 0.",
    ],
    "files.md": [
        "torch.float32 [32, 13] torch.int64 and next is epoch 1\n",
        "tags of each sample: [2, 0, 1]\n",
        "Parquet and text agree: True\n",
        "18000 to train on, 2000 to validate with, batches of 512\n",
        "rows left: 14880\n",
        "rows of both files: 6\n",
        "refused: 1 of 4 lines cannot be read, the first: ",
    ],
    "formats.md": ["torch.Size([2, 4])"],
    "gpu.md": ["rows 4", ", found in the cache "],
    "metrics.md": ["{'auc': 0.", "\nTrue\n{'gauc': 0.", "\nmean error 0.", "AUC 0.75\nof all workers 0.75\n"],
    "models.md": ["AUC 0.", "served (500,)\n", " parameters beside the rows\n"],
    "migrate/ddp.md": ["loss 0.00"],
    "migrate/paddle.md": ["loss 0."],
    "migrate/tensorflow.md": ["AUC 1.00\n"],
    "migrate/torchrec.md": ["rows of t_user and t_item: [2, 4]\n"],
    "paddle.md": [
        "PaddlePaddle 1.8: loss 0.0",
        "the same answers: True\ntorch: loss 0.0",
        "Fleet: loss 0.0",
        "half and half: loss 0.0",
    ],
    "plan.md": [
        "Clicks with Adam, batches of 256\n",
        'memory="',
        "starts with fleetrun --server_num 4 --worker_num 4 train.py\nbytes of a row with its state: 64\n",
    ],
    "serving.md": ["200 rows of 8\nknown ", "unknown ", "zeros 0.0\nexported True\nrefreshed (2,)\n"],
    "sizing.md": [
        "1 machines: rows on disks, servers, fits: False\n",
        "16 machines: rows on host memory, servers, fits: True\n",
    ],
    "static.md": ["loss 0.0", "sgd(Param=", "# fused_fc", "AUC 1.00\n", "goes on at loss 0.0", "listen_and_serv"],
    "traces.md": ["aten::sum"],
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES)
def test_the_page_runs(page: str, tmp_path: Path) -> None:
    program = "\n".join(re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL))
    said = python(script(tmp_path, program), cwd=tmp_path, environ={"FLEET_DEVICE": "cpu"}, warm=True)
    for words in PAGES[page]:
        assert words in said
