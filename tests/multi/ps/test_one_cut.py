"""Checkpoints taken in the middle of an asynchronous run are of one moment: every row, table, server and worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from operator import lt
from pathlib import Path

import pytest

from fleet import checkpoint
from fleet.net import Endpoint
from support.durable.cut_job import CountingJob
from support.serving.serving import REAL, server_process

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def endpoints() -> Iterator[Sequence[Endpoint]]:
    with ExitStack() as stack:
        servers = [stack.enter_context(server_process(REAL, token=None)) for _ in range(2)]
        yield [server.endpoint for server in servers]
        for server in servers:  # to import torch takes a server longer than everything else of its start
            assert "libtorch" not in Path(f"/proc/{server.process.pid}/maps").read_text()


@pytest.mark.parametrize(
    ("mode", "num_workers", "num_saves"),
    [
        ("async", 3, 5),
        ("half", 3, 2),
        ("geo", 2, 2),
        pytest.param("async", 3, 50, marks=pytest.mark.exhaustive),
        pytest.param("half", 3, 20, marks=pytest.mark.exhaustive),
        pytest.param("geo", 4, 20, marks=pytest.mark.exhaustive),
    ],
)
def test_a_save_in_the_middle_of_a_run_is_one_moment(
    endpoints: Sequence[Endpoint], tmp_path: Path, mode: str, num_workers: int, num_saves: int
) -> None:
    job = CountingJob(endpoints, mode, num_workers)
    wrong: list[str] = []
    steps = (0,) * num_workers
    with job.run() as worker:
        for number in range(num_saves):
            saved = job.save(worker, number, tmp_path / "saved")
            wrong += [f"save {number}: {text}" for text in job.check(saved)]
            before, steps = steps, checkpoint.read_manifest(saved).steps
            assert all(map(lt, before, steps)), f"nobody trained in between: {before}, then {steps}"
    assert not wrong, f"{len(wrong)} signs of different moments, such as {wrong[:8]}"
