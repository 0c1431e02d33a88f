"""The packages of engines, which `make engines` installs in a venv of their own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BIN = ROOT / "build" / "engines" / "bin"
needed = pytest.mark.skipif(
    not (BIN.parent / ".done").exists(), reason="needs the packages that `make engines` installs"
)


def asked(program: str, given: object, limit_s: float = 120.0) -> Any:
    """What a program of that Python prints as JSON, given this as JSON."""
    command = [str(BIN / "python"), "-c", program]
    told = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, timeout=limit_s, check=False
    )
    assert told.returncode == 0, told.stderr[-3000:]
    return json.loads(told.stdout)
