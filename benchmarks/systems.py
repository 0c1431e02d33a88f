"""How each system trains the MLP and the small transformer on 2 CPU ranks, and the figures that a run of it gives.

The transformer and its loop are ours (scripts/workload.py), wrapped by each system in its own way. The MLP of the
others is their own script in the folder `scripts`, which is no part of this project; ours has the same loop.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from peers import BIN, Command, RunError, run

SCRIPTS = Path(__file__).parent / "scripts"
MODELS = ("mlp", "transformer")
MODULES = {"accelerate": "accelerate", "fabric": "lightning", "paddle": "paddle"}
"""Systems that have to be installed on their own, and the module that knows the version of each."""


class Figures(NamedTuple):
    """Of one run: samples/s of all ranks together, and the last batch's loss of rank 0."""

    samples_per_s: float
    loss: float | None
    """None when the system does not start from the same weights."""


Contestant = Callable[[Path], Figures]
"""Train once, with a folder to write to."""


def contestants(model: str, steps: int, pythons: dict[str, Path], scripts: Path) -> dict[str, Contestant]:
    """By system: those that can train `model` here. The first is Fleet, the second hand-written DDP if it can run."""
    found: dict[str, Contestant] = {"fleet": fleet(model, steps)}
    for system, python in {"ddp": Path(sys.executable), **pythons}.items():
        if model == "transformer" and system != "paddle":
            found[system] = torch_script(python, system, model, steps)
        elif model == "mlp" and scripts.is_dir():
            found[system] = (
                paddle_mlp(python, scripts) if system == "paddle" else torch_mlp(python, scripts, system, steps)
            )
    return found


def fleet(model: str, steps: int) -> Contestant:
    """As our guide says: `strategy.auto`, which on a CPU means an optimizer in one kernel."""
    launcher: Command = [BIN / "fleetrun", "--quiet", "--nproc_per_node", "2", "--device", "cpu"]
    script: Command = [SCRIPTS / "train_fleet.py", "--model", model, "--mode", "auto", "--steps", str(steps), "--out"]
    return lambda folder: left_behind(folder, [*launcher, "--log_dir", folder / "log", *script, folder])


def torch_script(python: Path, system: str, model: str, steps: int) -> Contestant:
    script: Command = [SCRIPTS / "train_torch.py", system, "--model", model, "--steps", str(steps), "--out"]
    return lambda folder: left_behind(folder, [*torchrun(python), *script, folder])


def torch_mlp(python: Path, scripts: Path, system: str, steps: int) -> Contestant:
    command = [*torchrun(python), scripts / "ddp" / "mlp.py", system, f"n={steps}"]

    def train(folder: Path) -> Figures:
        output = run(command, folder)
        found = re.search(r"(\d+) samples/s .* 2 ranks, 1 thread, .* loss ([\d.]+)", output)
        if found is None:
            raise RunError(f"no samples/s of 2 ranks in its output:\n{output[-2000:]}")
        return Figures(float(found[1]), float(found[2]))

    return train


def paddle_mlp(python: Path, scripts: Path) -> Contestant:
    launcher: Command = [python, "-m", "paddle.distributed.launch", "--nproc_per_node", "2"]

    def train(folder: Path) -> Figures:
        run([*launcher, scripts / "paddle" / "mlp_collective.py"], folder)
        ranks = [json.loads(path.read_text()) for path in folder.glob("mlp.*.json")]
        if len(ranks) != 2:
            raise RunError(f"{len(ranks)} ranks left figures, not 2")
        return Figures(sum(rank["sps"] for rank in ranks), None)

    return train


def torchrun(python: Path) -> Command:
    return [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]


def left_behind(folder: Path, command: Command) -> Figures:
    """Run a script of ours, which leaves its figures in the folder."""
    run(command, folder)
    first = json.loads((folder / "worker0.json").read_text())
    if (first["workers"], first["threads"]) != (2, 1):
        raise RunError(f"{first['workers']} workers with {first['threads']} threads, not 2 with 1")
    return Figures(first["samples_per_s"], first["loss"])
