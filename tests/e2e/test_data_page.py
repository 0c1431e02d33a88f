"""The Python of docs/data.md is one program; a reader who copies it gets one that runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.jobs import clean_environ, script

PAGE = Path(__file__).parents[2] / "docs" / "data.md"


@pytest.mark.timeout(90)
def test_the_page_runs(tmp_path: Path) -> None:
    program = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL))
    done = subprocess.run(
        [sys.executable, script(tmp_path, program)],
        env={**clean_environ(), "FLEET_DEVICE": "cpu", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=80,
    )
    assert done.returncode == 0, done.stderr
    assert "loss 0.0000 after 3 epochs of 32 batches\n" in done.stdout
    assert "epoch 3 from sample 160\n" in done.stdout
