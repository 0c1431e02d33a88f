"""Kubernetes without an operator: a StatefulSet of servers, an indexed Job of workers, a Service that names them."""

from __future__ import annotations

from fleet_tools.engines import pods
from fleet_tools.engines.asked import SERVER_PORT, EngineJob
from fleet_tools.engines.yaml_text import Noted, comment, documents

_INSTANCE, _ROLE = "app.kubernetes.io/instance", "app.kubernetes.io/component"
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def render(job: EngineJob) -> str:
    """Manifests for `kubectl apply -f`."""
    servers = ",".join(f"{job.name}-server-{n}.{job.name}:{SERVER_PORT}" for n in range(job.num_servers))
    found = [_service(job)]
    hints = [pods.token_hint(job), f"Done when `kubectl wait --for=condition=complete job/{job.name}-worker` says so."]
    if job.has_servers:
        found += [_budget(job), _servers(job, servers)]
        hints.append("The servers stay until they are deleted: kubectl delete -f FILE.")
    if job.is_durable:
        hints.append("After a job that failed, its journals are in the claims, and the same manifests go on with it.")
        found.append(pods.shared_claim(job))
    return comment("\n".join([job.headline, *hints])) + documents(*found, _workers(job, servers))


def _labels(job: EngineJob, role: str = "") -> dict[str, str]:
    return {_INSTANCE: job.name, **({_ROLE: role} if role else {})}


def _service(job: EngineJob) -> dict[str, object]:
    """Without an address of its own: every pod has a name, also before it is ready, for servers are found early."""
    ports = [{"name": "grpc", "port": SERVER_PORT}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": job.name, "labels": _labels(job)},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": _labels(job),
            "ports": ports if job.has_servers else [{"name": "meeting", "port": job.meeting_port}],
        },
    }


def _budget(job: EngineJob) -> dict[str, object]:
    """One server after the other when nodes are drained, and none at all without a journal."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"{job.name}-server", "labels": _labels(job)},
        "spec": {"maxUnavailable": 1 if job.is_durable else 0, "selector": {"matchLabels": _labels(job, "server")}},
    }


def _servers(job: EngineJob, servers: str) -> dict[str, object]:
    labels = _labels(job, "server")
    container = pods.server_container(job, servers, index="${HOSTNAME##*-}")
    claims = [{"metadata": {"name": "kept"}, "spec": pods.claim("ReadWriteOnce")}] if job.is_durable else []
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": f"{job.name}-server", "labels": labels},
        "spec": {
            "serviceName": job.name,
            "replicas": job.num_servers,
            "podManagementPolicy": Noted("Parallel", "all servers at once: a worker needs them all"),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pods.pod(container)},
            **({"volumeClaimTemplates": claims} if claims else {}),
        },
    }


def _workers(job: EngineJob, servers: str) -> dict[str, object]:
    labels = _labels(job, "worker")
    first = {"FLEET_INDEX": pods.from_field(_INDEX)}
    container = pods.worker_container(job, servers, f"{job.name}-worker-{{}}.{job.name}", first=first)
    volumes = pods.claimed(f"{job.name}-kept") if job.is_durable else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{job.name}-worker", "labels": labels},
        "spec": {
            "completionMode": "Indexed",
            "completions": job.num_workers,
            "parallelism": job.num_workers,
            "backoffLimit": job.lives * job.num_workers,
            "template": {
                "metadata": {"labels": labels},
                "spec": pods.pod(
                    container,
                    restartPolicy="OnFailure" if job.lives else "Never",
                    subdomain=job.name,
                    **volumes,
                ),
            },
        },
    }
