"""JobSet: servers and workers are two jobs of one set, which ends, servers and all, when the workers have."""

from __future__ import annotations

from collections.abc import Mapping

from fleet_tools.engines import pods
from fleet_tools.engines.asked import SERVER_PORT, EngineJob
from fleet_tools.engines.yaml_text import comment, documents

_INDEX = {"FLEET_INDEX": pods.from_field("metadata.annotations['batch.kubernetes.io/job-completion-index']")}


def render(job: EngineJob) -> str:
    """A JobSet for `kubectl apply -f`."""
    found: dict[str, object] = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": job.name},
        "spec": spec(job, job.name),
    }
    claims = [pods.shared_claim(job)] if job.is_durable else []
    return comment(f"{job.headline}\n{pods.token_hint(job)}") + documents(*claims, found)


def spec(
    job: EngineJob,
    set_name: str,
    worker: str = "worker",
    labels: Mapping[str, str] | None = None,
    first: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """The spec of a set by this name; `worker` is the name of its job of workers, `labels` are that job's."""
    told = {**_INDEX, **(first or {})}
    servers = ",".join(f"{set_name}-server-0-{n}.{set_name}:{SERVER_PORT}" for n in range(job.num_servers))
    containers = [pods.worker_container(job, servers, f"{set_name}-{worker}-0-{{}}.{set_name}", first=told)]
    jobs = [_replicated(job, worker, job.num_workers, containers[0], labels)]
    if job.has_servers:
        container = pods.server_container(job, servers, first=told)
        jobs.insert(0, _replicated(job, "server", job.num_servers, container))
    return {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": [worker]},
        "failurePolicy": {"maxRestarts": 0 if job.has_servers else job.lives},
        "replicatedJobs": jobs,
    }


def _replicated(
    job: EngineJob, name: str, number: int, container: Mapping[str, object], labels: Mapping[str, str] | None = None
) -> dict[str, object]:
    """One indexed job of `number` pods; a pod whose container dies is kept, one whose node is lost is made anew."""
    volumes = pods.claimed(f"{job.name}-kept") if job.is_durable else {}
    return {
        "name": name,
        "replicas": 1,
        "template": {
            **({"metadata": {"labels": dict(labels)}} if labels else {}),
            "spec": {
                "completionMode": "Indexed",
                "completions": number,
                "parallelism": number,
                "backoffLimit": job.lives * number,
                "template": {
                    "spec": pods.pod(container, restartPolicy="OnFailure" if job.lives else "Never", **volumes)
                },
            },
        },
    }
