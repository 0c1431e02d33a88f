"""A worker is killed whose gradients go out with those of others of its machine: the job ends, and says who it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.collective import uneven_job
from support.collective.uneven_job import write_file
from support.jobs import fleetrun

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("worker", [0, 1], ids=["that sends for all", "whose gradients another sends"])
def test_the_job_ends_with_the_name_of_the_worker(worker: int, tmp_path: Path) -> None:
    write_file(tmp_path)
    how = ("combine", "ahead", f"inside{worker}")
    arguments = ("--server_num", 1, "--worker_num", 3, uneven_job.__file__, *how)
    result = fleetrun(*arguments, cwd=tmp_path, warm=True, limit_s=60)
    assert result.code != 0
    assert f"error: worker {worker} failed: signal SIGKILL (9)" in result.err, result.err
