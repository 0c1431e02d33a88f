"""What artefacts say: names lead to pods, selectors to templates, mounts to volumes, and secrets are nowhere."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import fleet
from fleet_tools.engines.render import ENGINES
from support.rendered import COLLECTIVE, COMMANDS, DURABLE, ON_GPUS, SERVERS, WITH_PODS, fleetrun, manifests, of_kind
from support.rendered import text_of as rendered

YAML = (*WITH_PODS, "compose", "skypilot")


def pod_specs(found: object) -> Iterator[dict[str, Any]]:
    """Every pod's spec, wherever it is nested."""
    if isinstance(found, dict):
        if "containers" in found:
            yield found
        for inner in found.values():
            yield from pod_specs(inner)
    elif isinstance(found, list):
        for inner in found:
            yield from pod_specs(inner)


def variables(container: dict[str, Any]) -> dict[str, Any]:
    assert len({one["name"] for one in container["env"]}) == len(container["env"]), "a variable stands twice"
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("engine", WITH_PODS)
def test_what_a_pod_mounts_is_among_its_volumes(engine: str, words: tuple[str, ...]) -> None:
    found = manifests(engine, words)
    claims = {one["metadata"]["name"] for one in found if one["kind"] == "PersistentVolumeClaim"}
    specs = list(pod_specs(found))
    assert len(specs) == (1 if words is COLLECTIVE else 2)
    for spec in specs:
        own = {volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in spec.get("volumes", ())}
        assert set(own.values()) <= claims
        templates = [one for document in found for one in document["spec"].get("volumeClaimTemplates", ())]
        is_of_a_set = spec["containers"][0]["name"] == "server" and engine == "k8s"
        there = {one["metadata"]["name"] for one in templates} if is_of_a_set else set(own)
        mounts = [mount for container in spec["containers"] for mount in container.get("volumeMounts", ())]
        assert {mount["name"] for mount in mounts} == there
        assert bool(mounts) == (words is DURABLE)
        kept = [variables(container).get("FLEET_DURABLE") for container in spec["containers"]]
        assert kept == ([mount["mountPath"] for mount in mounts] or [None])


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_selectors_of_kubernetes_match_their_templates(words: tuple[str, ...]) -> None:
    found = manifests("k8s", words)
    labels = {one["kind"]: one["spec"]["template"]["metadata"]["labels"] for one in found if "template" in one["spec"]}
    service = of_kind(found, "Service")
    for role in labels.values():
        assert service["spec"]["selector"].items() <= role.items()
    assert of_kind(found, "Job")["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    if words is COLLECTIVE:
        assert set(labels) == {"Job"}
        return
    servers = of_kind(found, "StatefulSet")["spec"]
    assert servers["serviceName"] == service["metadata"]["name"]
    assert servers["selector"]["matchLabels"] == labels["StatefulSet"]
    budget = of_kind(found, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"]
    assert budget.items() <= labels["StatefulSet"].items()
    assert not budget.items() <= labels["Job"].items()


def expected_servers(engine: str, number: int) -> list[str]:
    """The names that the pods of servers have by the documents of each engine."""
    name = {"jobset": "train-server-0-{}.train", "kubeflow": "$(FLEET_SET)-server-0-{}.$(FLEET_SET)"}
    return [f"{name.get(engine, 'train-server-{}.train').format(n)}:6170" for n in range(number)]


@pytest.mark.parametrize("words", [SERVERS, DURABLE, ON_GPUS], ids=["servers", "durable", "gpus"])
@pytest.mark.parametrize("engine", WITH_PODS)
def test_pods_are_told_who_they_are(engine: str, words: tuple[str, ...]) -> None:
    text = rendered(engine, words).replace("own-train", "train")
    server, worker = (spec["containers"][0] for spec in pod_specs(list(yaml.safe_load_all(text))))
    num_servers, num_workers = (1, 2) if words is ON_GPUS else (2, 3)
    for role, container in {"server": server, "worker": worker}.items():
        told = variables(container)
        assert told["FLEET_ROLE"] == role
        assert told["FLEET_WORKERS"] == str(num_workers)
        assert told["FLEET_SERVERS"].split(",") == expected_servers(engine, num_servers)
        assert told["FLEET_JOB_TOKEN"]["secretKeyRef"] == {"name": "train-token", "key": "token"}
        assert ("FLEET_INDEX" in told) != ("FLEET_INDEX=" in str(container["command"]))
        names = list(told)
        for text in (value for value in told.values() if isinstance(value, str)):
            for before in re.findall(r"\$\((\w+)\)", text):  # Kubernetes fills in only what stands before
                assert names.index(before) < names.index("FLEET_SERVERS")
    assert server["ports"] == [{"name": "grpc", "containerPort": 6170, "protocol": "TCP"}]
    assert server["readinessProbe"]["grpc"] == {"port": 6170, "service": "fleet.ps.ParameterServer"}
    gpus = [container["resources"]["limits"].get("nvidia.com/gpu") for container in (server, worker)]
    assert gpus == (["1", "1"] if words is ON_GPUS else [None, None])
    assert "--device cuda" in " ".join(server["command"]) or words is not ON_GPUS


def test_the_probe_asks_for_the_service_that_a_server_has() -> None:
    from fleet.ps.wire.messages import SERVICE
    from fleet_tools.engines.pods import HEALTH

    assert HEALTH == SERVICE


@pytest.mark.parametrize("engine", YAML)
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_numbers_are_those_of_the_command_line(engine: str, words: tuple[str, ...]) -> None:
    found = manifests(engine, words)
    number = {SERVERS: (2, 3), DURABLE: (2, 3), ON_GPUS: (1, 2), COLLECTIVE: (0, 2)}[words]
    if engine == "k8s":
        sets = [one["spec"]["replicas"] for one in found if one["kind"] == "StatefulSet"]
        assert (sum(sets), of_kind(found, "Job")["spec"]["completions"]) == number
    elif engine in ("jobset", "kubeflow"):
        spec = found[-1]["spec"] if engine == "jobset" else found[0]["spec"]["template"]["spec"]
        jobs = {job["name"]: job["template"]["spec"]["completions"] for job in spec["replicatedJobs"]}
        worker = "worker" if engine == "jobset" else "node"
        assert (jobs.get("server", 0), jobs[worker]) == number
        assert spec["successPolicy"]["targetReplicatedJobs"] == [worker]
    elif engine == "volcano":
        tasks = {task["name"]: task["replicas"] for task in found[-1]["spec"]["tasks"]}
        assert (tasks.get("server", 0), tasks["worker"]) == number
        assert found[-1]["spec"]["minAvailable"] == sum(number)
    elif engine == "compose":
        names = list(found[0]["services"])
        assert tuple(sum(name.startswith(role) for name in names) for role in ("server", "worker")) == number
    else:
        assert found[0]["num_nodes"] == (2 if words is COLLECTIVE else 1)


def test_a_train_job_finds_its_runtime() -> None:
    found = manifests("kubeflow", DURABLE)
    runtime, job = of_kind(found, "ClusterTrainingRuntime"), of_kind(found, "TrainJob")
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    assert "trainer.kubeflow.org/framework" in runtime["metadata"]["labels"]
    trainer = runtime["spec"]["template"]["spec"]["replicatedJobs"][-1]
    assert trainer["replicas"] == 1
    assert trainer["template"]["metadata"]["labels"] == {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    assert trainer["template"]["spec"]["template"]["spec"]["containers"][0]["name"] == "node"


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("engine", ["slurm", "slurm-het"])
def test_scripts_of_slurm_are_shell(engine: str, words: tuple[str, ...], tmp_path: Path) -> None:
    if engine == "slurm-het" and words in (DURABLE, COLLECTIVE):
        return
    script = tmp_path / "job.sh"
    script.write_text(rendered(engine, words))
    subprocess.run(["bash", "-n", str(script)], check=True, timeout=10)
    assert script.read_text().startswith("#!/bin/bash\n# fleetrun --render slurm")
    is_of_slurm = [line.startswith("#SBATCH") for line in script.read_text().splitlines()]
    first_command = script.read_text().splitlines().index("set -euo pipefail")
    assert not any(is_of_slurm[first_command:]), "Slurm reads options up to the first command only"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_program_prints_it_and_no_secret(engine: str, tmp_path: Path) -> None:
    words = ("--server_num", "1", "--worker_num", "1", "--render", engine, "train.py", "-x", "two words")
    told = fleetrun(tmp_path, *words, FLEET_JOB_TOKEN="never-to-be-printed", FLEET_METRICS_TOKEN="nor-this-one")
    assert (told.returncode, told.stderr) == (0, "")
    assert "never-to-be-printed" not in told.stdout
    assert "nor-this-one" not in told.stdout
    assert f"fleetrun --server_num 1 --worker_num 1 --render {engine} train.py -x 'two words'" in told.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"], "something was started"


def test_what_a_script_is_given_arrives_unharmed() -> None:
    own = ("--expr", 'a "b" $HOME `x` \\', "it's", "", "--render", "é")
    for engine in WITH_PODS:
        for spec in pod_specs(manifests(engine, ("--server_num", "1", "--worker_num", "1", "train.py", *own))):
            command = spec["containers"][0]["command"]
            if "fleet.ps.server" not in str(command) and command[0] != "sh":
                assert tuple(command[2:]) == own


def test_servers_have_memory_for_their_budget(tmp_path: Path) -> None:
    words = ("--server_num", "1", "--worker_num", "1", "--render", "k8s", "train.py")
    told = fleetrun(tmp_path, *words, FLEET_MEMORY_BUDGET="4G")
    servers = of_kind(list(yaml.safe_load_all(told.stdout)), "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    assert servers["resources"]["limits"]["memory"] == servers["resources"]["requests"]["memory"] == str(5 << 30)


def test_the_driver_of_ray_calls_what_there_is() -> None:
    """The words of `fleet.ray.Trainer`, read from its file: this goes without Ray."""
    source = Path(fleet.__file__).parent / "engines" / "ray" / "trainer.py"
    (trainer,) = (
        one
        for one in ast.walk(ast.parse(source.read_text()))
        if isinstance(one, ast.ClassDef) and one.name == "Trainer"
    )
    (init,) = (one for one in trainer.body if isinstance(one, ast.FunctionDef) and one.name == "__init__")
    known = {argument.arg for argument in init.args.kwonlyargs}
    for words in COMMANDS.values():
        line = tuple(one for one in words if one not in ("--journal", "interval"))  # which is refused
        calls = [one for one in ast.walk(ast.parse(rendered("ray", line))) if isinstance(one, ast.Call)]
        (call,) = (one for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr == "Trainer")
        given = {keyword.arg for keyword in call.keywords}
        assert {"workers", "resources_per_worker", "run_config"} <= given <= known
        assert ("servers" in given) == (words is not COLLECTIVE)
        assert ("journal" in given) == (words is DURABLE)
