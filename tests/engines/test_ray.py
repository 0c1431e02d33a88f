"""Jobs with servers on a real Ray cluster of three nodes, and what becomes of them when a part of it dies."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from engines.ray_cluster import IS_THERE, MISSING, PYTHON, ROOT, HeldCluster

pytestmark = [pytest.mark.timeout(900), pytest.mark.skipif(not IS_THERE, reason=MISSING)]


NUM_STEPS = 300


@pytest.fixture(scope="module")
def calm(cluster: HeldCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What comes of so many steps when nothing dies."""
    folder = tmp_path_factory.mktemp("calm")
    digest: str = cluster.start("served", folder=str(folder), steps=NUM_STEPS).result()["digest"]
    return digest


def test_nothing_is_lost_with_a_worker_a_server_and_a_node(cluster: HeldCluster, calm: str, tmp_path: Path) -> None:
    job = cluster.start("served", folder=str(tmp_path / "rough"), steps=NUM_STEPS)
    pauses = {}
    for what, step in (("worker", 20), ("server", 110), ("node", 200)):
        job.wait_for(step)
        at = time.time()
        if what == "node":
            cluster.ask("remove")
        else:
            pid = job.steps(1)[-1][1] if what == "worker" else cluster.pids("ServerActor")[0]
            os.kill(pid, signal.SIGKILL)
        job.wait_for(step + 80)
        pauses[what] = job.pause_s(at)
    rough = job.result()
    print("longest pause of worker 0, in seconds:", {what: round(pause, 1) for what, pause in pauses.items()})
    cluster.ask("add")
    assert rough["digest"] == calm
    assert len({pid for _, pid, _ in job.steps(1)}) >= 2
    for worker in (0, 1):  # a step that was under way is made again, and none twice that was noted by the same life
        assert sorted({step for *_, step in job.steps(worker)}) == list(range(1, NUM_STEPS + 1))
    assert not (job.folder / "run" / "fleet").exists()


def test_a_driver_that_died_goes_on_by_name(cluster: HeldCluster, calm: str, tmp_path: Path) -> None:
    job = cluster.start("served", folder=str(tmp_path / "rough"), steps=NUM_STEPS)
    job.wait_for(60)
    job.stop()
    began = len(job.steps(0))
    again = cluster.start("served", folder=str(tmp_path / "rough"), steps=NUM_STEPS)
    assert again.result()["digest"] == calm
    assert again.steps(0)[began][2] >= 60, "it has begun anew"


def test_a_server_without_its_journal_ends_the_job(cluster: HeldCluster, tmp_path: Path) -> None:
    job = cluster.start("served", folder=str(tmp_path), steps=100_000)
    job.wait_for(20)
    for index in (0, 1):
        shutil.rmtree(tmp_path / "run" / "fleet" / f"server-{index}")
    os.kill(cluster.pids("ServerActor")[0], signal.SIGKILL)
    assert re.search(r"server [01] is gone, and Ray does not start it again: .* is gone", job.result()["error"])


def test_the_program_of_the_page_runs(cluster: HeldCluster, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "clusters" / "ray.md").read_text()
    found = re.search(r'```py title="on_ray.py"\n(.*?)```', page, flags=re.DOTALL)
    assert found is not None
    program = found[1].replace("/shared/runs", str(tmp_path)).replace("500_000", "20_000")
    (tmp_path / "on_ray.py").write_text(program)
    environ = {**os.environ, "RAY_ADDRESS": cluster.address}
    told = subprocess.run(
        [str(PYTHON), "on_ray.py"], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300, check=False
    )
    assert told.returncode == 0, told.stderr[-3000:]
    assert re.search(r"^loss 0\.\d+$", told.stdout, flags=re.MULTILINE), told.stdout[-3000:]


def test_what_cannot_run_is_one_line(cluster: HeldCluster, tmp_path: Path) -> None:
    asked = {"CPU": 1.0, "unheard_of": 1.0}
    found = cluster.start("served", folder=str(tmp_path), steps=1, resources_per_server=asked, patience_s=2.0).result()
    assert re.fullmatch(
        r"Ray has found no room for 2 servers with .* within 2 s, free are .*; add nodes, .*", found["error"]
    )
    folder = tmp_path / "damaged"
    (folder / "run" / "fleet").mkdir(parents=True)
    (folder / "run" / "fleet" / "server-1").write_text("no folder")
    found = cluster.start("served", folder=str(folder), steps=1).result()
    assert re.fullmatch(
        r"server 1 is gone, and Ray does not start it again: .*cannot keep its journal.*", found["error"]
    )
