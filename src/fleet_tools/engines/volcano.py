"""Volcano: one job with a task of servers and a task of workers, which are all started or none is."""

from __future__ import annotations

from collections.abc import Mapping

from fleet_tools.engines import pods
from fleet_tools.engines.asked import SERVER_PORT, EngineJob
from fleet_tools.engines.yaml_text import Noted, comment, documents

_INDEX = "$VC_TASK_INDEX"
_LOST = {"event": "PodEvicted", "action": "RestartTask"}


def render(job: EngineJob) -> str:
    """A Job of batch.volcano.sh for `kubectl apply -f`."""
    servers = ",".join(f"{job.name}-server-{n}.{job.name}:{SERVER_PORT}" for n in range(job.num_servers))
    worker = pods.worker_container(job, servers, f"{job.name}-worker-{{}}.{job.name}", index=_INDEX)
    tasks = [_task(job, "worker", job.num_workers, worker)]
    if job.has_servers:
        tasks.insert(0, _task(job, "server", job.num_servers, pods.server_container(job, servers, index=_INDEX)))
    found = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": job.name},
        "spec": {
            "schedulerName": "volcano",
            "queue": Noted("default", "choose"),
            "minAvailable": Noted(job.num_servers + job.num_workers, "all or none"),
            "maxRetry": job.lives,
            "plugins": {"env": [], "svc": Noted([], "pods find each other by name")},
            "tasks": tasks,
        },
    }
    claims = [pods.shared_claim(job)] if job.is_durable else []
    return comment(f"{job.headline}\n{pods.token_hint(job)}") + documents(*claims, found)


def _task(job: EngineJob, name: str, number: int, container: Mapping[str, object]) -> dict[str, object]:
    """The job is complete when its workers are; servers do not end before."""
    volumes = pods.claimed(f"{job.name}-kept") if job.is_durable else {}
    policies = [{"event": "TaskCompleted", "action": "CompleteJob"}] if name == "worker" else []
    policies += [_LOST] if job.lives else []
    return {
        "name": name,
        "replicas": number,
        "policies": policies,
        "template": {
            "spec": pods.pod(container, restartPolicy="OnFailure" if job.lives else "Never", **volumes),
        },
    }
