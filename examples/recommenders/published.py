"""Compares models on public sets with the figures that others have published, where the sets are on this machine.

    FLEET_DATA_HOME=/data python examples/recommenders/published.py            everything that is there
    FLEET_DATA_HOME=/data python examples/recommenders/published.py deepfm     of it, one model

A figure counts as reached if ours is at most 0.001 below. Sets are not downloaded: this says which are missing, and
where to put them. Training is that of train.py, and takes hours on CPUs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

GATE = 0.001


@dataclass(frozen=True)
class Figure:
    """What a model reaches on a set by `metric`, and how train.py is called for it."""

    folder: str
    kind: str
    model: str
    metric: str
    value: float
    options: tuple[str, ...] = ()


CLICKS = ("--dim", "10", "--batch-size", "4096", "--epochs", "10", "--early-stop", "2")
NEXT = ("--dim", "50", "--batch-size", "128", "--epochs", "100", "--early-stop", "10")
FIGURES = (
    Figure("criteo_x1", "criteo", "deepfm", "AUC", 0.8137, CLICKS),
    Figure("criteo_x1", "criteo", "dcn", "AUC", 0.8142, CLICKS),
    Figure("criteo_x1", "criteo", "xdeepfm", "AUC", 0.8139, CLICKS),
    Figure("criteo_x1", "criteo", "dlrm", "AUC", 0.8138, CLICKS),
    Figure("criteo_x1", "criteo", "finalnet", "AUC", 0.8154, CLICKS),
    Figure("ml-1m", "movielens", "sasrec", "HR@10", 0.2853, NEXT),
    Figure("ml-1m", "movielens", "hstu", "HR@10", 0.3097, NEXT),
)
FILES = {
    "criteo_x1": ("train.csv", "valid.csv", "test.csv"),
    "ml-1m": ("ratings.dat", "users.dat", "movies.dat"),
}
"""What must be in FLEET_DATA_HOME/SET: Criteo x1 as BARS has it, with the names of columns in the first line."""


def main(wanted: list[str]) -> int:
    models = sorted({figure.model for figure in FIGURES})
    if unknown := [model for model in wanted if model not in models]:
        print(f"published.py: there is no figure of {unknown[0]!r}; there are some of {', '.join(models)}")
        return 2
    home = os.environ.get("FLEET_DATA_HOME")
    if home is None:
        print("FLEET_DATA_HOME is not set: it names the folder that has a folder for each public set")
        return 2
    missing = {name for name, files in FILES.items() if not all((Path(home) / name / file).exists() for file in files)}
    for name in sorted(missing):
        *most, last = FILES[name]
        print(f"{name}: not there; put {', '.join(most)} and {last} into {Path(home) / name}")
    below = 0
    for figure in FIGURES:
        if figure.folder in missing or (wanted and figure.model not in wanted):
            continue
        found = train(figure, Path(home) / figure.folder)
        is_reached = found >= figure.value - GATE
        below += not is_reached
        verdict = "reached" if is_reached else "NOT reached"
        print(f"{figure.folder}, {figure.model}: {figure.metric} {found:.4f}, published {figure.value:.4f}: {verdict}")
    return int(below > 0)


def train(figure: Figure, folder: Path) -> float:
    """Train until it gets no better; what the best model reaches on the test data."""
    out = Path("build/published") / f"{figure.folder}-{figure.model}"
    script = Path(__file__).with_name("train.py")
    data = ("--data", f"{figure.kind}:{folder}", "--out", str(out), "--resume")
    subprocess.run([sys.executable, script, "--model", figure.model, *data, *figure.options], check=True)
    return float(json.loads((out / "result.json").read_text())[figure.metric])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
