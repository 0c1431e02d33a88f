"""examples/online: what is served follows a taste that drifts; what hourly checkpoints serve does not."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from support.data.brokers import needs_nats

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(240)]


def test_a_replica_is_killed_and_what_is_served_follows(tmp_path: Path) -> None:
    needs_nats()
    command = [
        sys.executable,
        ROOT / "examples/online/run.py",
        "--seconds",
        "24",
        "--hour",
        "12",
        "--out",
        tmp_path / "out",
    ]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=200, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    points = json.loads((tmp_path / "out/online.json").read_text())[6:]
    served, hourly, best = (statistics.mean(point[name] for point in points) for name in ("stream", "hourly", "best"))
    assert hourly + 0.02 < served
    assert best - 0.1 < served
    assert "the other one did" in " ".join(result.stdout.split())
