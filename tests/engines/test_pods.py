"""What the pods of a manifest do: its own commands with its own variables, late names, and addresses that change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.durable import burning_job
from support.hosts import why_not
from support.jobs import fleetrun
from support.pods import Cluster, Pod, cluster
from support.processes import wait_until
from support.rendered import manifests, of_kind

REASON = why_not()
pytestmark = [
    pytest.mark.netns,
    pytest.mark.timeout(300),
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
]
LIMIT_S, NUM_STEPS, PAUSE_MS = 120.0, 40, 50


def words(folder: Path, mode: str) -> tuple[str, ...]:
    """The command line whose artefact is run; the claims are mounted where its folder is."""
    (folder / "kept").mkdir()
    (folder / "train.py").symlink_to(burning_job.__file__)
    job = ("--server_num", "2", "--worker_num", "2", "--durable", str(folder / "kept"))
    return (*job, "train.py", mode, str(NUM_STEPS), str(PAUSE_MS))


@contextmanager
def running(pods: list[Pod]) -> Iterator[None]:
    try:
        yield
    finally:
        for pod in pods:
            pod.kill()


def steps(pod: Pod) -> list[int]:
    return (
        [int(one) for one in re.findall(r"^step (\d+) ", pod.log.read_text(), re.MULTILINE)] if pod.log.exists() else []
    )


def wait_for_step(pod: Pod, step: int) -> None:
    wait_until(lambda: step in steps(pod), LIMIT_S, f"step {step} of {pod.name}")


def undisturbed(folder: Path) -> str:
    folder.mkdir()
    job = ["--server_num", 1, "--worker_num", 2, burning_job.__file__, "sync", NUM_STEPS]
    result = fleetrun(*job, cwd=folder, environ={"OMP_NUM_THREADS": "1"}, warm=True)
    assert result.code == 0, result.err
    return ends(result.out)


def ends(text: str) -> str:
    return "\n".join(text.splitlines()[-2:])


def run(place: Cluster, servers: list[Pod], workers: list[Pod]) -> str:
    """Start workers before the servers have names, kill one of each, and move the server; what the job has come to."""
    with running([*servers, *workers]):
        for pod in workers:
            pod.schedule()
            pod.start()
        for pod in servers:
            pod.schedule()
            pod.start()
        wait_for_step(workers[0], 5)
        assert [pod.probe("readinessProbe") for pod in servers] == ["1", "1"]
        servers[1].kill()
        servers[1].schedule()  # its node is gone: the same name, another address
        servers[1].start()
        wait_for_step(workers[0], 15)
        workers[1].kill()
        workers[1].start()
        codes = [pod.wait(LIMIT_S) for pod in workers]
        assert codes == [0, 0], [pod.log.read_text()[-2000:] for pod in (*workers, *servers)]
        assert [pod.stop() for pod in servers] == [0, 0]
    assert len(place.names) == 8
    return ends(workers[0].log.read_text())


@pytest.mark.exhaustive
def test_a_job_on_kubernetes_outlives_a_worker_and_the_place_of_a_server(tmp_path: Path) -> None:
    found = manifests("k8s", words(tmp_path, "sync"))
    with cluster(tmp_path, 5) as place:
        job = of_kind(found, "Job")
        told = run(place, place.of_statefulset(found), place.of_job(job, job["metadata"]["name"]))
    assert told == undisturbed(tmp_path / "undisturbed")


@pytest.mark.exhaustive
def test_a_job_of_kubeflow_has_the_names_of_its_own_train_job(tmp_path: Path) -> None:
    """The runtime says names by the set's own, and all processes share one volume."""
    found = manifests("kubeflow", words(tmp_path, "async"))
    with cluster(tmp_path, 5) as place:
        spec = of_kind(found, "ClusterTrainingRuntime")["spec"]["template"]["spec"]
        servers, workers = place.of_jobset(spec, "another-name")
        told = run(place, servers, workers)
    assert f"counted {2 * NUM_STEPS * burning_job.BATCH} of {2 * NUM_STEPS * burning_job.BATCH}" in told


def test_a_pod_of_a_server_is_healthy_without_the_token_and_stops_in_order(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    found = manifests(
        "k8s", ("--server_num", "1", "--worker_num", "1", "--durable", str(tmp_path / "kept"), "train.py")
    )
    with cluster(tmp_path, 1) as place:
        (pod,) = place.of_statefulset(found)
        with running([pod]):
            pod.schedule()
            pod.start()
            wait_until(lambda: "Server listening on" in pod.log.read_text(), LIMIT_S, "the server")
            assert pod.probe("livenessProbe") == "1"
            assert pod.stop() == 0
    assert (tmp_path / "volumes" / "kept-train-server-0" / "server-0").is_dir()


@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", ["volcano", "compose"])
def test_jobs_of_volcano_and_compose_come_to_their_end(engine: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").symlink_to(burning_job.__file__)
    (tmp_path / "token").write_text("a-token-in-a-file\n")
    (found,) = manifests(engine, ("--server_num", "1", "--worker_num", "2", "train.py", "async", "20"))
    with cluster(tmp_path, 3) as place:
        if engine == "volcano":
            (server,), workers = place.of_volcano(found["spec"], found["metadata"]["name"])
        else:
            server, *workers = place.of_compose(found["services"])
        with running([server, *workers]):
            for pod in (*workers, server):
                pod.schedule()
                pod.start()
            assert [pod.wait(LIMIT_S) for pod in (*workers, server)] == [0, 0, 0], workers[0].log.read_text()[-2000:]
    assert "counted 640 of 640" in workers[0].log.read_text()


@pytest.mark.exhaustive
def test_machines_of_a_collective_job_meet_where_the_first_pod_is(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import fleet\nfleet.init(is_collective=True)\n"
        "print('sum', fleet.util.all_reduce(1), 'of', fleet.worker_num(), flush=True)\n"
    )
    line = ("--nproc_per_node", "1", "--nnodes", "2", "--device", "cpu", "train.py")
    job = of_kind(manifests("k8s", line), "Job")
    with cluster(tmp_path, 2) as place:
        first, second = pods = place.of_job(job, job["metadata"]["name"])
        with running(pods):
            second.schedule()
            second.start()
            wait_until(lambda: second.log.exists(), LIMIT_S, "the second machine")
            first.schedule()  # its name leads nowhere before
            first.start()
            assert [pod.wait(LIMIT_S) for pod in pods] == [0, 0], [pod.log.read_text() for pod in pods]
    assert "sum 2 of 2" in first.log.read_text()
