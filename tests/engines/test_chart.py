"""The chart in deploy/helm says the same as `fleetrun --render k8s`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.engines import BIN, ROOT, needed
from support.rendered import COLLECTIVE, DURABLE, ON_GPUS, SERVERS, manifests, of_kind

CHART = ROOT / "deploy" / "helm" / "fleet"
TRAIN = ["python", "train.py"]
VALUES: dict[tuple[str, ...], dict[str, Any]] = {
    SERVERS: {"servers": 2, "workers": 3, "command": [*TRAIN, "--lr", "0.1"]},
    DURABLE: {
        "servers": 2,
        "workers": 3,
        "command": TRAIN,
        "lives": 10,
        "durable": {"folder": "/fleet/kept", "journal": "interval"},
    },
    ON_GPUS: {
        "name": "own-train",
        "servers": 1,
        "workers": 2,
        "command": ["python", "-m", "own.train"],
        "serverDevice": "cuda",
        "serverGpus": 1,
        "workerGpus": 1,
    },
    COLLECTIVE: {"servers": 0, "workers": 2, "command": []},
}


def helm(*words: object) -> str:
    told = subprocess.run(
        [str(BIN / "helm"), *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout


def by_name(found: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


@needed
@pytest.mark.parametrize("words", VALUES, ids=["servers", "durable", "gpus", "collective"])
def test_helm_template_is_what_fleetrun_renders(words: tuple[str, ...], tmp_path: Path) -> None:
    wanted, values = manifests("k8s", words), VALUES[words]
    if words is COLLECTIVE:  # its command is a fleetrun with names of pods in it, which people copy
        pod = of_kind(wanted, "Job")["spec"]["template"]["spec"]
        values = {**values, "command": pod["containers"][0]["command"]}
    path = tmp_path / "values.yaml"
    path.write_text(json.dumps(values))
    found = list(yaml.safe_load_all(helm("template", "any", CHART, "--values", path)))
    assert by_name(found) == by_name(wanted)


@needed
def test_helm_has_nothing_against_the_chart() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART)


def test_the_values_are_those_of_the_command_in_their_first_line() -> None:
    text = (CHART / "values.yaml").read_text()
    values = yaml.safe_load(text)
    assert "`fleetrun --server_num 2 --worker_num 4 --render k8s train.py`" in text.splitlines()[0]
    assert (values["servers"], values["workers"], values["command"]) == (2, 4, TRAIN)
    assert set().union(*VALUES.values()) <= set(values)
