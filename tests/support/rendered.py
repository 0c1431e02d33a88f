"""What `fleetrun --render` prints, as data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from fleet.launch.arguments.parser import parse
from fleet_tools.engines.render import render

SERVERS = ("--server_num", "2", "--worker_num", "3", "train.py", "--lr", "0.1")
DURABLE = ("--server_num", "2", "--worker_num", "3", "--durable", "kept", "--journal", "interval", "train.py")
ON_GPUS = ("--device", "cuda", "--server_device", "cuda", "--server_num", "1", "--worker_num", "2", "-m", "own.train")
COLLECTIVE = ("--nproc_per_node", "4", "--device", "cpu", "--nnodes", "2", "train.py")
COMMANDS = {"servers": SERVERS, "durable": DURABLE, "gpus": ON_GPUS, "collective": COLLECTIVE}
WITH_PODS = ("k8s", "jobset", "kubeflow", "volcano")


def text_of(engine: str, words: tuple[str, ...]) -> str:
    """The artefact for a command line, made in this process."""
    line = ["--render", engine, *words]
    return render(parse.main(line, standalone_mode=False), line)


def manifests(engine: str, words: tuple[str, ...]) -> list[dict[str, Any]]:
    """The documents of an artefact that is YAML."""
    return list(yaml.safe_load_all(text_of(engine, words)))


def of_kind(found: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The one document of this kind."""
    (one,) = (document for document in found if document["kind"] == kind)
    return one


def fleetrun(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The program itself, in a folder with the script train.py."""
    (folder / "train.py").touch()
    command = [sys.executable, "-m", "fleet.launch", *words]
    return subprocess.run(
        command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, timeout=60, check=False
    )
