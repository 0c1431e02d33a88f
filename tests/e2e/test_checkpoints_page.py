"""The Python of docs/checkpoints.md is one program; a reader who copies it gets one that runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.jobs import clean_environ, script

PAGE = Path(__file__).parents[2] / "docs" / "checkpoints.md"


@pytest.mark.timeout(90)
def test_the_page_runs(tmp_path: Path) -> None:
    program = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL))
    done = subprocess.run(
        [sys.executable, script(tmp_path, program)],
        cwd=tmp_path,
        env={**clean_environ(), "FLEET_DEVICE": "cpu", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=80,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "saved at step 100 in epoch 3\n"
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-00000075", "step-00000100"]
