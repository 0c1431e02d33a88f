"""TorchX's components: run by its local scheduler, and what its other schedulers would be given."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.durable import burning_job
from support.engines import BIN, asked, needed
from support.jobs import clean_environ
from support.processes import wait_until

pytestmark = [needed, pytest.mark.timeout(300)]
LIMIT_S = 120.0

DRY = """
import json, sys
from fleet_tools.engines import torchx_component as components
from torchx.schedulers import get_scheduler_factories
given = json.load(sys.stdin)
app = getattr(components, given["component"])(*given["args"], **given["named"])
scheduler = get_scheduler_factories()[given["scheduler"]](session_name="test")
info = scheduler.submit_dryrun(app, {"queue": "default"} if given["scheduler"] == "kubernetes" else {})
print(json.dumps(str(info)))
"""
PS = {"script": "train.py", "servers": 2, "workers": 3, "durable": "/shared/kept", "token_file": "/run/secrets/token"}
ROLES = [("worker", "0"), ("worker", "1"), ("worker", "2"), ("server", "0"), ("server", "1")]
ARGS = ["--lr", "0.1", "$HOME", "it's"]


def given(scheduler: str, component: str = "ps", named: dict[str, Any] | None = None) -> str:
    """What a scheduler would be given."""
    told = {"scheduler": scheduler, "component": component, "args": ARGS, "named": PS if named is None else named}
    found = asked(DRY, told)
    assert isinstance(found, str)
    return found


def test_slurm_gets_a_task_for_each_server_and_worker() -> None:
    text = given("slurm")
    assert text.count("#SBATCH hetjob") == 4
    roles = re.findall(r"FLEET_ROLE=(\w+),FLEET_INDEX=(\d),FLEET_SERVERS=file:(\S+?),FLEET_SERVER_NUM=2", text)
    assert [(role, index) for role, index, _ in roles] == ROLES
    assert len({folder for _, _, folder in roles}) == 1
    assert text.count("--kill-on-bad-exit=1") == text.count("-m fleet_tools.engines.replica .fleet/") == 5
    assert text.count("-m fleet.job --max_restart 10 python") == 5


def test_volcano_gets_a_task_for_each_server_and_worker() -> None:
    found = yaml.safe_load(given("kubernetes"))
    assert found["spec"]["maxRetry"] == 0  # who dies has to live again inside its pod
    containers = [task["template"]["spec"]["containers"][0] for task in found["spec"]["tasks"]]
    told = [{one["name"]: one["value"] for one in container["env"]} for container in containers]
    assert [(one["FLEET_ROLE"], one["FLEET_INDEX"]) for one in told] == ROLES
    assert {one["FLEET_SERVERS"] for one in told} == {f"file:.fleet/{found['metadata']['name']}"}
    assert {(one["FLEET_WORKERS"], one["FLEET_SERVER_NUM"]) for one in told} == {("3", "2")}
    shell, option, command = containers[0]["command"]
    assert (shell, option, shlex.split(command)[-4:]) == ("sh", "-c", ARGS)
    where = f".fleet/{found['metadata']['name']}"
    kept = (
        "exec python -m fleet_tools.engines.replica {} python -m fleet.job --max_restart 10 python -m fleet.ps.server"
    )
    assert containers[-1]["command"][-1] == kept.format(where)


def test_docker_gets_a_container_for_each_server_and_worker() -> None:
    text = given("local_docker", named={**PS, "mounts": "type=bind,src=/shared,dst=/shared"})
    assert re.findall(r"FLEET_ROLE: (\w+)", text) == [role for role, _ in ROLES]
    assert "Source: /shared" in text


@pytest.mark.parametrize("scheduler", ["slurm", "kubernetes", "local_docker"])
def test_machines_of_a_collective_job_meet_at_the_first(scheduler: str) -> None:
    text = given(scheduler, "dist", {"script": "train.py", "j": "2x4", "device": "cpu"})
    wanted = (
        r'exec python -m fleet\.launch --rank (\d) --master "\$\{(\w+):=localhost\}:6000" --nnodes 2 --nproc_per_node 4'
    )
    found = re.findall(wanted, " ".join(text.split()))
    assert [rank for rank, _ in found] == ["0", "1"], text


def test_the_components_stand_beside_those_of_torchx() -> None:
    told = subprocess.run([BIN / "torchx", "builtins"], capture_output=True, text=True, timeout=60, check=True)
    assert {"fleet.ps", "fleet.dist", "dist.ddp", "utils.echo"} <= set(re.findall(r"\d+\. (\S+)", told.stdout))


def free_port() -> int:
    """One that nobody has just now; where machines meet, fleetrun waits for it if need be."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


class Run:
    """A `torchx run` that waits for its end, with logs of replicas in the folder `log`."""

    def __init__(self, folder: Path, *words: object) -> None:
        (folder / "train.py").symlink_to(burning_job.__file__)
        (folder / "token").write_text("a-token-that-nobody-guesses\n")
        self.folder = folder
        config = ["--scheduler", "local_cwd", "-cfg", f"log_dir={folder / 'log'}", "--wait"]
        path = f"{BIN}:{os.environ['PATH']}"
        self.process = subprocess.Popen(
            [BIN / "torchx", "run", *config, *map(str, words)],
            cwd=folder,
            env={**clean_environ(), "PATH": path, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def log(self, role: str, index: int) -> str:
        """All that a replica has said."""
        return "".join(path.read_text() for path in sorted(self.folder.glob(f"log/*/*/{role}/{index}/*.log")))

    def wait_for_step(self, step: int) -> None:
        """Until worker 0 has come that far."""
        wait_until(lambda: f"step {step} " in self.log("worker", 0), LIMIT_S, f"step {step}")

    def end(self) -> str:
        """What TorchX has said, once the job has ended well."""
        out, _ = self.process.communicate(timeout=LIMIT_S)
        assert self.process.returncode == 0, out[-3000:]
        return str(out)


def pid_of(folder: Path, role: str, index: int) -> int:
    """The server or worker itself, which is a child of what keeps it."""
    wanted = {f"FLEET_ROLE={role}".encode(), f"FLEET_INDEX={index}".encode(), f"PWD={folder}".encode()}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_kept = not re.search(rb"fleet\.job|replica", (path / "cmdline").read_bytes())
            if is_kept and wanted <= {
                *(path / "environ").read_bytes().split(b"\0"),
                f"PWD={(path / 'cwd').readlink()}".encode(),
            }:
                return int(path.name)
        except OSError:
            continue
    raise AssertionError(f"no {role} {index} runs in {folder}")


@pytest.mark.exhaustive
def test_servers_and_workers_run_and_one_of_each_dies(tmp_path: Path) -> None:
    words = ["fleet.ps", "--script", "train.py", "--servers", 2, "--workers", 2, "--durable", "kept"]
    job = Run(tmp_path, *words, "--token_file", "token", "--", "async", 60, 50)
    try:
        for role, step in (("server", 5), ("worker", 20)):
            job.wait_for_step(step)
            os.kill(pid_of(tmp_path, role, 1), signal.SIGKILL)
        said = job.end()
    finally:
        job.process.kill()
    assert "SUCCEEDED" in said
    assert "counted 1920 of 1920" in job.log("worker", 0)
    for role in ("server", "worker"):
        assert "was killed by SIGKILL; started again in its place (life 2)" in job.log(role, 1)


@pytest.mark.exhaustive
def test_a_job_ends_over_a_worker_that_failed(tmp_path: Path) -> None:
    """The servers are told, and TorchX's scheduler, which waits for all replicas, has nobody to wait for."""
    job = Run(tmp_path, "fleet.ps", "--script", "train.py", "--token_file", "token", "--", "no-such-mode", "no-number")
    out, _ = job.process.communicate(timeout=LIMIT_S)
    assert job.process.returncode == 1, out
    assert "FAILED" in out
    assert "another process of the job has failed" in job.log("server", 0)


@pytest.mark.exhaustive
def test_a_collective_job_runs_on_two_machines_that_are_one(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import fleet\nfleet.init(is_collective=True)\n"
        "print('rank', fleet.worker_index(), 'of', fleet.worker_num(), flush=True)\n"
    )
    job = Run(tmp_path, "fleet.dist", "--script", "own.py", "-j", "2x2", "--device", "cpu", "--port", free_port())
    assert "SUCCEEDED" in job.end()
