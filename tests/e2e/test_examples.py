"""What the README and the examples show, run as a reader would run it, with the result pinned."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.jobs import clean_environ, fleetrun, script

pytestmark = pytest.mark.timeout(180)
ROOT = Path(__file__).parents[2]


def readme_program() -> str:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 1
    return str(blocks[0])


@pytest.mark.parametrize("num_workers", [1, 2])
def test_the_readme_program_learns(tmp_path: Path, num_workers: int) -> None:
    train = script(tmp_path, readme_program())
    if num_workers == 1:
        done = subprocess.run(
            [sys.executable, train], env=clean_environ(), capture_output=True, text=True, timeout=120, check=True
        )
        output = done.stdout
    else:
        result = fleetrun("--nproc_per_node", num_workers, "--device", "cpu", train, cwd=tmp_path)
        assert result.code == 0, result.err
        output = result.out
    found = re.search(r"mean loss over the workers: ([0-9.e-]+)", output)
    assert found is not None, output
    assert float(found[1]) < 0.1


def test_the_readme_program_is_as_short_as_it_says() -> None:
    lines = [line for line in readme_program().splitlines() if line.strip()]
    assert len(lines) <= 20


def test_the_quickstart_separates_the_spirals(tmp_path: Path) -> None:
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", ROOT / "examples/quickstart/train.py", cwd=tmp_path)
    assert result.code == 0, result.err
    assert "training 1500/1500" in result.out
    found = re.search(r"2 worker\(s\), loss [0-9.]+, accuracy on unseen points ([0-9.]+)", result.out)
    assert found is not None, result.out
    assert float(found[1]) > 0.98
