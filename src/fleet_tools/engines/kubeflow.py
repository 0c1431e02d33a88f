"""Kubeflow Trainer v2: a runtime for jobs with so many servers, and the TrainJob that uses it."""

from __future__ import annotations

from fleet_tools.engines import jobset, pods
from fleet_tools.engines.asked import EngineJob
from fleet_tools.engines.yaml_text import Noted, comment, documents

_API = "trainer.kubeflow.org/v1alpha1"
_SET = {"FLEET_SET": pods.from_field("metadata.labels['jobset.sigs.k8s.io/jobset-name']")}
"""The set has the TrainJob's name, by which its pods find each other: the runtime serves jobs of any name."""


def render(job: EngineJob) -> str:
    """A ClusterTrainingRuntime and a TrainJob for `kubectl apply -f`."""
    ancestor = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    spec = jobset.spec(job, "$(FLEET_SET)", "node", ancestor, _SET)
    _call_it_node(spec)
    runtime = {
        "apiVersion": _API,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": f"fleet-{job.name}", "labels": {"trainer.kubeflow.org/framework": "fleet"}},
        "spec": {"mlPolicy": {"numNodes": job.num_workers}, "template": {"spec": spec}},
    }
    trainer: dict[str, object] = {
        "numNodes": Noted(job.num_workers, "the number of workers: FLEET_WORKERS says the same"),
        "image": pods.IMAGE,
    }
    if job.has_servers:
        trainer |= {"command": [*job.script], "env": [{"name": "FLEET_WORKERS", "value": str(job.num_workers)}]}
    train_job = {
        "apiVersion": _API,
        "kind": "TrainJob",
        "metadata": {"name": job.name},
        "spec": {"runtimeRef": {"name": f"fleet-{job.name}"}, "trainer": trainer},
    }
    claims = [pods.shared_claim(job)] if job.is_durable else []
    return comment(f"{job.headline}\n{pods.token_hint(job)}") + documents(runtime, *claims, train_job)


def _call_it_node(spec: dict[str, object]) -> None:
    """The trainer's container has to be called `node`: image, command and variables of a TrainJob go there."""
    jobs = spec["replicatedJobs"]
    assert isinstance(jobs, list)
    jobs[-1]["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = "node"
