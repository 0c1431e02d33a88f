"""What Ray Train has beside a loop: reports, checkpoints, callbacks, Datasets, Tune, notices, jobs without servers."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from engines.ray_cluster import IS_THERE, MISSING, HeldCluster

pytestmark = [pytest.mark.timeout(900), pytest.mark.skipif(not IS_THERE, reason=MISSING)]


def test_reports_and_checkpoints_reach_ray_though_workers_die(cluster: HeldCluster, tmp_path: Path) -> None:
    job = cluster.start("served", folder=str(tmp_path), steps=240, save=60, report=20)
    for worker, step in ((1, 30), (0, 150)):
        job.wait_for(step)
        os.kill(job.steps(worker)[-1][1], signal.SIGKILL)
    found = job.result()
    heard = [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines()]
    assert all(len(one["metrics"]) == 1 for one in heard), "worker 0 reports"
    saved = [one["metrics"][0]["step"] for one in heard if one["has_checkpoint"]]
    assert sorted(set(saved)) == [60, 120, 180, 240]
    told = [one["metrics"][0]["step"] for one in heard if not one["has_checkpoint"]]
    assert told == sorted(told)
    assert len(set(range(20, 241, 20)) - set(told)) <= 1, "worker 0 was killed once"
    assert found["metrics"] == {"step": 240}
    files = os.listdir(found["checkpoint"])
    assert "manifest.json" in files
    assert any(name.startswith("table-") for name in files)


def test_each_row_of_a_dataset_is_trained_once(cluster: HeldCluster, tmp_path: Path) -> None:
    calm = cluster.start("fed", folder=str(tmp_path / "calm"), steps=100).result()
    job = cluster.start("fed", folder=str(tmp_path / "rough"), steps=100, pause=0.05)
    job.wait_for(30)
    os.kill(job.steps(1)[-1][1], signal.SIGKILL)
    assert job.result()["digest"] == calm["digest"]
    assert len({pid for _, pid, _ in job.steps(1)}) == 2
    rows: list[str] = []
    for worker in (0, 1):
        lines = (job.folder / f"rows-{worker}").read_text().splitlines()
        by_step = {line.split()[0]: line.split()[1:] for line in lines}  # a step that is made again has the same rows
        assert len(by_step) == 100
        rows += [row for step in by_step.values() for row in step]
    assert sorted(map(int, rows)) == list(range(4000))


def test_tune_tries_jobs_with_servers(cluster: HeldCluster, tmp_path: Path) -> None:
    found = cluster.start("tuned", folder=str(tmp_path), steps=0, report=20).result()
    assert found == {"best": 40, "trials": 2, "errors": 0}


def test_without_servers_all_workers_begin_again_where_they_saved(cluster: HeldCluster, tmp_path: Path) -> None:
    job = cluster.start("together", folder=str(tmp_path))
    job.wait_for(45)
    os.kill(job.steps(1)[-1][1], signal.SIGKILL)
    found = job.result()
    assert (found["steps"], found["workers"]) == (100, 2)
    assert found["began"] in (40, 60)


def test_a_notice_says_which_workers_will_go(cluster: HeldCluster, tmp_path: Path) -> None:
    job = cluster.start("served", folder=str(tmp_path), steps=100_000, until_notice=True)
    job.wait_for(20)
    cluster.ask("drain")
    found = job.result()
    assert found["has_deadline"]
    assert found["ranks"] in ([0], [1])
    cluster.ask("lose")
    cluster.ask("add")
