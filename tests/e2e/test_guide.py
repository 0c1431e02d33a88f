"""The Python of docs/parameter_server.md is one program; a reader who copies it gets one that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.jobs import fleetrun, python, script

pytestmark = pytest.mark.timeout(300)
DOCS = Path(__file__).parents[2] / "docs"


def program(page: str) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL))


@pytest.mark.parametrize("num_servers", [0, 2])
def test_the_guide_runs(tmp_path: Path, num_servers: int) -> None:
    guide = script(tmp_path, program("parameter_server.md"), "guide.py")
    if num_servers:
        result = fleetrun("--server_num", num_servers, "--worker_num", 2, guide, cwd=tmp_path, warm=True)
        assert result.code == 0, result.err
        output = result.out
    else:
        output = python(guide, cwd=tmp_path, warm=True)
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.e-]+)", output)]
    assert len(losses) == 2
    assert losses[-1] < 0.2
    assert "half_async\n" in output
    assert re.search(r"AUC (1\.0|0\.9)\d+, cross entropy 0\.\d+\n", output)
    assert "served True\n" in output
    assert "True rows gathered\n" in output
    assert "1000 rows\n" in output
    assert "{'rows': " in output
