"""MovieLens-100k: our models beside RecBole's, on the same split, measured by the same code.

    make data
    python benchmarks/movielens.py --peers-python recbole=VENV/bin/python --json benchmarks/results/movielens.json

Clicks are ratings of 4 and 5, split 80/10/10 at random: AUC. Sequences leave out the last item of each user, which is
to be found among all items that the user has not seen: HR@10 and NDCG@10. Both sides stop by the validation set. Ours
train in one process, with the tables in it. `--scores DIR` has scores that scripts/movielens_recbole.py left there, on
another machine for example; `--prepare DIR` writes the files that it reads.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
from harness import write_results
from movielens_files import Data, open_data, prepare
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score
from turns import pythons_option

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "benchmarks" / "scripts"
PAIRS = {"DeepFM": "DeepFM", "DCNv2": "DCNV2", "DIN": "DIN", "SASRec": "SASRec", "TwoTower": "BPR"}
"""Our model, and the one of RecBole that it is compared with."""
LESS = 0.005
"""How much below RecBole's figure ours may be."""


def measure(scores: Mapping[str, Any], data: Data) -> dict[str, float]:
    """AUC of clicks; HR@10 and NDCG@10 of rankings [users, items], from which what a user has seen is taken out."""
    users, items = scores["users"], scores["items"]
    if scores["scores"].ndim == 1:
        label = data.labels_of(users, items)
        return {"AUC": float(roc_auc_score(label, scores["scores"]))}
    table = np.full((data.num_users, data.num_items), -np.inf, dtype=np.float32)
    rows = np.array([data.user_of[name] for name in users])
    table[rows[:, None], np.array([data.item_of[name] for name in items])] = scores["scores"]
    table[data.seen] = -np.inf
    own = table[np.arange(len(table)), data.last]
    rank = (table > own[:, None]).sum(1) + ((table == own[:, None]).sum(1) - 1) / 2  # ties count half
    found = rank < 10
    return {"HR@10": float(found.mean()), "NDCG@10": float((found / np.log2(rank + 2)).mean())}


def run(command: Sequence[object], folder: Path) -> None:
    """Run one side's script; what it prints is shown if it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise click.ClickException(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    Console(stderr=True).print(done.stdout.strip().splitlines()[-1], markup=False)


def loaded(path: Path) -> dict[str, Any]:
    with np.load(path) as found:
        return dict(found)


def scores_of(
    name: str, seeds: int, data: Data, folder: Path, python: Path | None, scores: Path | None, epochs: int
) -> dict[str, Any]:
    """One model of ours, trained with each of some seeds, beside RecBole's."""
    files = scores or folder
    runs = []
    for seed in range(seeds):
        out = folder / f"{name}-{seed}.npz"
        ours = [SCRIPTS / "movielens_fleet.py", name, data.folder, out, "--seed", seed, "--epochs", epochs]
        run([BIN / "python", *ours], folder)
        runs.append(loaded(out))
    case: dict[str, Any] = {"case": name, "ours": [measure(one, data) for one in runs]}
    case["ours_s"] = [float(one["seconds"]) for one in runs]
    case["ours_median"] = {what: statistics.median(one[what] for one in case["ours"]) for what in case["ours"][0]}
    theirs = files / f"{PAIRS[name]}.npz"
    if python is not None:
        run([python, SCRIPTS / "movielens_recbole.py", PAIRS[name], folder, theirs, "--epochs", epochs], folder)
    if theirs.exists():
        found = loaded(theirs)
        case["recbole_model"], case["recbole"] = PAIRS[name], measure(found, data)
        case["recbole_s"], case["recbole_used"] = float(found["seconds"]), str(found["used"])
        case["ours_less_recbole"] = {what: case["ours_median"][what] - value for what, value in case["recbole"].items()}
        case["is_reached"] = all(less >= -LESS for less in case["ours_less_recbole"].values())
    return case


BIN = ROOT / ".venv" / "bin"


@click.command(help=__doc__)
@click.option("--data", "where", type=Path, default=ROOT / "build" / "data" / "ml-100k", show_default=False)
@click.option("--models", default=",".join(PAIRS), help="Which of ours, separated by commas.")
@click.option("--seeds", default=3, help="Runs of each of our models; the median counts.")
@click.option("--epochs", default=300, help="At most, of both sides.")
@click.option("--prepare", "prepared", type=Path, help="Write RecBole's files into this folder, and end.")
@click.option("--scores", type=Path, help="A folder with scores of RecBole's models, made elsewhere.")
@click.option("--json", "json_path", type=Path, help="Where to write the results.")
@pythons_option(["recbole"])
def main(
    where: Path,
    models: str,
    seeds: int,
    epochs: int,
    prepared: Path | None,
    scores: Path | None,
    json_path: Path | None,
    pythons: dict[str, Path],
) -> None:
    """Train, compare, and show."""
    if wrong := [name for name in models.split(",") if name not in PAIRS]:
        raise click.UsageError(f"--models: {wrong[0]!r} is none of {', '.join(PAIRS)}")
    data = open_data(where)
    if prepared is not None:
        prepare(data, prepared)
        return
    with TemporaryDirectory() as folder:
        prepare(data, Path(folder))
        python = pythons.get("recbole")
        cases = [scores_of(name, seeds, data, Path(folder), python, scores, epochs) for name in models.split(",")]
    show(cases)
    if json_path is not None:
        write_results(json_path, cases, seeds=seeds, epochs=epochs)


def show(cases: Sequence[Mapping[str, Any]]) -> None:
    table = Table("model", "metric", "ours", "RecBole's", "difference")
    for case in cases:
        for what, value in case["ours_median"].items():
            theirs = case.get("recbole", {}).get(what, math.nan)
            beside = f"{case.get('recbole_model', '-')} {theirs:.4f}"
            table.add_row(case["case"], what, f"{value:.4f}", beside, f"{value - theirs:+.4f}")
    Console().print(table)


if __name__ == "__main__":
    main()
