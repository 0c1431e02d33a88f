"""What is the same in every engine with pods: containers of servers and workers, their variables and volumes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from fleet_tools.engines.asked import SERVER_PORT, WORKER_PORT, EngineJob
from fleet_tools.engines.yaml_text import Noted

IMAGE = Noted("torch-fleet:latest", "choose: one with Fleet and the script, see deploy/docker")
GRACE_S = 60
"""How long a pod that is told to stop may take to hand back what it has."""
HEALTH = "fleet.ps.ParameterServer"
"""The name by which the health service of gRPC knows a server."""
RECOVERY = Noted("600", "how long workers wait for a server that has to be placed again")


def token_hint(job: EngineJob) -> str:
    """How the job gets its secret, which no artefact has."""
    return (
        f'Before the first time: printf %s "$(openssl rand -hex 32)" | kubectl create secret generic {job.name}-token '
        "--from-file=token=/dev/stdin"
    )


def from_field(path: str) -> dict[str, object]:
    """A variable that Kubernetes fills in."""
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


def server_container(
    job: EngineJob, servers: str, *, index: str = "", first: Mapping[str, object] | None = None
) -> dict[str, object]:
    """A server that takes its index from the shell's `index`, or else from the variable among `first`."""
    probe = {"grpc": {"port": SERVER_PORT, "service": HEALTH}}
    return {
        "name": "server",
        "image": IMAGE,
        "command": _with_index(job.server, index),
        "env": _variables(job, {**(first or {}), "FLEET_ROLE": "server", "FLEET_SERVERS": servers}),
        "ports": [{"name": "grpc", "containerPort": SERVER_PORT, "protocol": "TCP"}],
        "startupProbe": {**probe, "periodSeconds": 2, "failureThreshold": Noted(900, "half an hour: a long journal")},
        "readinessProbe": {**probe, "periodSeconds": 5},
        "livenessProbe": {**probe, "periodSeconds": 20, "timeoutSeconds": 10, "failureThreshold": 6},
        "resources": _resources(job.server_gpus, job.memory),
        **_mounts(job),
    }


def worker_container(
    job: EngineJob, servers: str, host: str, *, index: str = "", first: Mapping[str, object] | None = None
) -> dict[str, object]:
    """A worker, or a machine of a collective job; `host` is the name of worker N, with N as `{}`."""
    told = {**(first or {})}
    if job.has_servers:
        command = _with_index(job.script, index)
        told |= {"FLEET_ROLE": "worker", "FLEET_SERVERS": servers}
        if not job.is_durable:  # whose workers meet at a server
            told["FLEET_WORKER_ENDPOINTS"] = ",".join(f"{host.format(n)}:{WORKER_PORT}" for n in range(job.num_workers))
        if job.worker_gpus:
            told["FLEET_DEVICE"] = "cuda"
    else:
        places = ("--master", f"{host.format(0)}:{job.meeting_port}", "--nnodes", str(job.num_nodes))
        own = ("--rank", f"$({index.strip('$') or 'FLEET_INDEX'})")  # Kubernetes puts in the value
        command = [*job.fleetrun(*own, *places)] if job.num_nodes > 1 else [*job.fleetrun()]
    return {
        "name": "worker",
        "image": IMAGE,
        "command": command,
        "env": _variables(job, told),
        "resources": _resources(job.worker_gpus, None),
        **_mounts(job),
    }


def _with_index(words: tuple[str, ...], index: str) -> list[str]:
    return ["sh", "-c", f"FLEET_INDEX={index} exec {shlex.join(words)}"] if index else [*words]


def pod(container: Mapping[str, object], **more: object) -> dict[str, object]:
    """A pod of one container, which has time to stop in order."""
    writes = {"securityContext": {"fsGroup": Noted(1000, "choose: the group of the image's user")}}
    kept = writes if container.get("volumeMounts") else {}
    return {**more, **kept, "terminationGracePeriodSeconds": GRACE_S, "containers": [container]}


def claim(mode: str) -> dict[str, object]:
    """A claim for what is kept: `mode` says who may mount it."""
    note = "choose: a class of your cluster" + (
        " whose volumes many nodes may mount" if mode == "ReadWriteMany" else ""
    )
    return {
        "accessModes": [mode],
        "storageClassName": Noted("standard", note),
        "resources": {"requests": {"storage": Noted("20Gi", "choose: three times the rows of a server")}},
    }


def shared_claim(job: EngineJob) -> dict[str, object]:
    """One claim for all processes of a durable job."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"{job.name}-kept"},
        "spec": claim("ReadWriteMany"),
    }


def claimed(name: str) -> dict[str, object]:
    """The volumes of a pod that mounts a claim."""
    return {"volumes": [{"name": "kept", "persistentVolumeClaim": {"claimName": name}}]}


def _variables(job: EngineJob, told: Mapping[str, object]) -> list[dict[str, object]]:
    """As Kubernetes lists them; a value that is no text says where the value comes from."""
    found: dict[str, object] = {**told}
    if job.has_servers:
        found["FLEET_WORKERS"] = str(job.num_workers)
    if job.is_durable:
        found |= {"FLEET_DURABLE": job.durable_folder, "FLEET_RECOVERY_TIMEOUT_S": RECOVERY}
    if job.options.journal is not None:
        found["FLEET_JOURNAL"] = job.options.journal
    found |= {"PYTHONUNBUFFERED": "1"}
    found["FLEET_JOB_TOKEN"] = {"valueFrom": {"secretKeyRef": {"name": f"{job.name}-token", "key": "token"}}}
    return [
        {"name": name, **value} if isinstance(value, Mapping) else {"name": name, "value": value}
        for name, value in found.items()
    ]


def _resources(gpus: int, memory: int | None) -> dict[str, object]:
    """What a container gets; a server takes the limit of memory as its own."""
    size: object = Noted("8Gi", "choose: `fleetrun plan` says how much") if memory is None else str(memory)
    limits = {"memory": "8Gi" if memory is None else str(memory), **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return {"requests": {"cpu": Noted("4", "choose"), "memory": size}, "limits": limits}


def _mounts(job: EngineJob) -> dict[str, object]:
    return {"volumeMounts": [{"name": "kept", "mountPath": job.durable_folder}]} if job.is_durable else {}
