"""Manifests by the schemas of their engines: Kubernetes, each version; JobSet and Kubeflow Trainer by their models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.engines import asked, needed
from support.rendered import COMMANDS, WITH_PODS, manifests

pytestmark = needed

KUBERNETES = """
import json, sys
import kubernetes_validate as valid
given = json.load(sys.stdin)
for document in given["documents"]:
    try:
        valid.validate(document, given["version"], strict=True)
    except valid.ValidationError as error:
        given["wrong"].append([document["kind"], error.message, [str(one) for one in error.path]])
json.dump(given["wrong"], sys.stdout)
"""
VERSIONS = "import json, kubernetes_validate.utils as u; print(json.dumps(sorted(set(u.all_versions()))))"
KUBEFLOW = """
import json, sys
import kubeflow_trainer_api.models as models
CLASSES = {"JobSet": "JobsetV1alpha2JobSet", "TrainJob": "TrainerV1alpha1TrainJob"}
CLASSES["ClusterTrainingRuntime"] = "TrainerV1alpha1ClusterTrainingRuntime"
print(json.dumps([getattr(models, CLASSES[one["kind"]]).from_dict(one).to_dict() for one in json.load(sys.stdin)]))
"""
OLDEST, NEWEST = "1.25", "1.37"


def all_documents() -> list[dict[str, Any]]:
    """Every manifest that Kubernetes itself knows, those inside of others too."""
    return [one for engine in WITH_PODS for words in COMMANDS.values() for one in known(manifests(engine, words))]


def known(found: object) -> Iterator[dict[str, Any]]:
    if isinstance(found, list):
        for one in found:
            yield from known(one)
    elif isinstance(found, dict):
        if found.get("apiVersion") in ("v1", "apps/v1", "batch/v1", "policy/v1"):
            yield found
            return
        template = found.get("template", {})
        if "completionMode" in template.get("spec", {}):
            metadata = {"name": "inside", **template.get("metadata", {})}
            yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}
            return
        if "containers" in template.get("spec", {}):
            yield {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "inside"}, "template": template}
            return
        for one in found.values():
            yield from known(one)


def wrong(version: str, documents: list[dict[str, Any]]) -> list[Any]:
    found: list[Any] = asked(KUBERNETES, {"version": version, "documents": documents, "wrong": []})
    return found


def versions() -> list[str]:
    """All that the package has schemas of."""
    found: list[str] = asked(VERSIONS, None)
    return found


def test_manifests_are_valid_on_the_oldest_and_the_newest_version() -> None:
    documents = all_documents()
    kinds = {document["kind"] for document in documents}
    wanted = {"Service", "StatefulSet", "Job", "PodDisruptionBudget", "PersistentVolumeClaim", "PodTemplate"}
    assert kinds == wanted
    for version in (OLDEST, NEWEST):
        assert wrong(version, documents) == []


@pytest.mark.exhaustive
def test_manifests_are_valid_on_every_version() -> None:
    documents = all_documents()
    found = versions()
    assert {f"{OLDEST}.0", f"{NEWEST}.0"} <= set(found)
    assert len(found) >= 13
    assert {version: wrong(version, documents) for version in found} == {version: [] for version in found}


def test_the_check_sees_a_field_that_is_not_there() -> None:
    job = next(one for one in all_documents() if one["kind"] == "Job")
    job["spec"]["template"]["spec"]["containers"][0]["imagine"] = "x"
    assert [kind for kind, _, _ in wrong(NEWEST, [job])] == ["Job"]


def test_the_models_of_kubeflow_drop_nothing() -> None:
    found = [
        one for engine in ("jobset", "kubeflow") for words in COMMANDS.values() for one in manifests(engine, words)
    ]
    documents = [one for one in found if one["kind"] != "PersistentVolumeClaim"]
    assert len(documents) == 12
    assert asked(KUBEFLOW, documents) == documents


def test_the_models_drop_what_they_do_not_know() -> None:
    (document,) = (one for one in manifests("jobset", COMMANDS["servers"]))
    document["spec"]["imagine"] = "x"
    assert asked(KUBEFLOW, [document]) != [document]
