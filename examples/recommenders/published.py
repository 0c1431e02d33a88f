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
LEADERBOARD = "BARS, the public leaderboard of FuxiCTR's authors"


@dataclass(frozen=True)
class Figure:
    """What a model reaches on a set by `metric`, and how train.py is called for it."""

    data: str
    model: str
    metric: str
    value: float
    options: tuple[str, ...] = ()


CRITEO = ("--dim", "10", "--batch-size", "4096", "--epochs", "10", "--early-stop", "2", "--lr", "0.001")
FIGURES = (
    Figure("criteo_x1", "deepfm", "AUC", 0.8137, CRITEO),
    Figure("criteo_x1", "dcn", "AUC", 0.8142, CRITEO),
    Figure("criteo_x1", "xdeepfm", "AUC", 0.8139, CRITEO),
    Figure("criteo_x1", "dlrm", "AUC", 0.8138, CRITEO),
    Figure("criteo_x1", "finalnet", "AUC", 0.8154, CRITEO),
)
FILES = {"criteo_x1": ("train.csv", "valid.csv", "test.csv")}
"""What must be in FLEET_DATA_HOME/SET: as FuxiCTR publishes it, with the names of columns in the first line."""
NOT_RUN = (
    ("taobao_ad", "DIN", "gAUC 0.5765, AUC 0.6524"),
    ("ml-1m", "SASRec", "HR@10 0.2853"),
    ("ml-1m", "HSTU", "HR@10 0.3097"),
)
"""Published figures that this script does not train for: train.py has no reader of these sets yet."""


def main(wanted: list[str]) -> int:
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
        if figure.data in missing or (wanted and figure.model not in wanted):
            continue
        found = train(figure, Path(home) / figure.data)
        is_reached = found >= figure.value - GATE
        below += not is_reached
        verdict = "reached" if is_reached else "NOT reached"
        print(f"{figure.data}, {figure.model}: {figure.metric} {found:.4f}, published {figure.value:.4f}: {verdict}")
    for name, model, value in NOT_RUN:
        print(f"{name}, {model}: {value} published; not compared here")
    return int(below > 0)


def train(figure: Figure, folder: Path) -> float:
    """Train until it gets no better; what the best model reaches on the test data."""
    out = Path("build/published") / f"{figure.data}-{figure.model}"
    script = Path(__file__).with_name("train.py")
    data = ("--data", f"criteo:{folder}", "--out", str(out), "--resume")
    subprocess.run([sys.executable, script, "--model", figure.model, *data, *figure.options], check=True)
    return float(json.loads((out / "result.json").read_text())[figure.metric])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
