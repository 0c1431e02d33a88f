"""The folder of a server's rows: two servers that begin in one moment do not remove each other's."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fleet.ps.held.table_dir import TableDir

OTHER = "from fleet.ps.held.table_dir import TableDir; own = TableDir(1); print(own.path.exists())"


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLEET_TABLE_DIR", str(tmp_path))
    return tmp_path


def test_one_that_begins_meanwhile_removes_no_folder_that_is_used(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one begins after the folder was made, and before it is locked."""
    real = fcntl.flock
    said: list[str] = []

    def flock(file: int, how: int) -> Any:
        if not said:
            done = subprocess.run([sys.executable, "-c", OTHER], capture_output=True, text=True, timeout=60, check=True)
            said.append(done.stdout.strip())
        return real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    own = TableDir(0)
    assert said == ["True"]
    assert (own.path / "lock").exists()
    assert list(base.iterdir()) == [own.path]
    own.close()
    assert not own.path.exists()


def test_what_the_dead_have_left_goes_and_what_the_living_use_stays(base: Path) -> None:
    dead = base / f"server-0-{os.getpid()}-x"
    dead.mkdir()
    (dead / "lock").touch()
    (dead / "rows").touch()
    first, second = TableDir(0), TableDir(1)
    assert sorted(base.iterdir()) == sorted([first.path, second.path])
    first.close()
    second.close()
    assert not list(base.iterdir())
