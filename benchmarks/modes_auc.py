"""One epoch of made-up clicks in every mode: the AUC on unseen ones must hardly depend on the mode.

    python benchmarks/modes_auc.py --json benchmarks/results/modes_auc.json
    python benchmarks/modes_auc.py --only sync --only geo --workers 8 --geo-steps 100

examples/recommenders/train.py trains CTR-DNN with 2 servers and 2 workers, and in one process with twice the batch. The
generator knows the AUC of the probabilities that it drew the labels with: that is the ceiling.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from harness import write_results
from peers import BIN, ENVIRON, Command
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "examples" / "recommenders" / "train.py"
BATCH = 1000
MODEL = ["--model", "dnn", "--dim", "10", "--hidden", "400,400,400"]
MODES: dict[str, list[str]] = {
    "local": [],
    "sync": [],
    "async": ["--lr", "0.0005"],
    "half_async": [],
    "geo": [],
}
"""What each mode is given beside what all have. In async mode gradients are a few pushes old when they are applied, and
layers with a lower rate bear that better: 0.0005 is one of three that were tried, on 600,000 samples and other unseen
ones."""
MOST_APART, MOST_BELOW = 0.002, 0.01
LIMIT_S = 1800


def train(mode: str, samples: int, workers: int, options: Sequence[str], folder: Path) -> dict[str, Any]:
    """Train once; what train.py says of it."""
    job: Command = [BIN / "fleetrun", "--quiet", "--server_num", "2", "--worker_num", str(workers)]
    job += ["--log_dir", folder / "log"]
    command: Command = [*([BIN / "python"] if mode == "local" else job), SCRIPT, *MODEL, "--mode", mode]
    size = workers * BATCH if mode == "local" else BATCH
    command += ["--batch-size", str(size), *options, "--data", f"synthetic:{samples}", "--out", folder]
    words = [str(word) for word in command]
    subprocess.run(words, cwd=folder, env=ENVIRON, check=True, timeout=LIMIT_S, stdout=sys.stderr)
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return found


def show(cases: list[dict[str, Any]]) -> bool:
    """A table of them; whether they are as near to each other and to the ceiling as they should be."""
    table = Table(title="CTR-DNN, one epoch")
    for header in ("mode", "AUC", "below the ceiling", "log loss", "samples/s"):
        table.add_column(header, justify="left" if header == "mode" else "right")
    for case in cases:
        below = case["ceiling"] - case["AUC"]
        table.add_row(
            case["case"],
            f"{case['AUC']:.4f}",
            f"{below:.4f}",
            f"{case['log loss']:.4f}",
            f"{case['samples_per_s']:,.0f}",
        )
    Console().print(table)
    found = [case["AUC"] for case in cases]
    apart, below = max(found) - min(found), cases[0]["ceiling"] - min(found)
    print(f"{apart:.4f} apart (at most {MOST_APART}), {below:.4f} below the ceiling (at most {MOST_BELOW})")
    return bool(apart <= MOST_APART and below <= MOST_BELOW)


@click.command()
@click.option("--samples", default=2_000_000, show_default=True, help="Of the epoch.")
@click.option("--only", multiple=True, type=click.Choice(list(MODES)), help="Only these modes. May be repeated.")
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True)
@click.option("--geo-steps", type=click.IntRange(1), default=20, show_default=True, help="Between exchanges.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(samples: int, only: tuple[str, ...], workers: int, geo_steps: int, path: Path | None) -> None:
    cases = []
    for mode in only or MODES:
        with TemporaryDirectory() as folder:
            options = ["--geo-steps", str(geo_steps)] if mode == "geo" else MODES[mode]
            cases.append({"case": mode, **train(mode, samples, workers, options, Path(folder)), "options": options})
    is_near = show(cases)
    if path is not None:
        chosen = "".join(f" --only {mode}" for mode in only) + f" --workers {workers} --geo-steps {geo_steps}"
        command = f"python benchmarks/modes_auc.py --samples {samples}{chosen}"
        write_results(path, cases, command=command, model=MODEL, most_apart=MOST_APART, most_below=MOST_BELOW)
    if not is_near:
        raise click.ClickException("the modes are too far from each other or from the ceiling")


if __name__ == "__main__":
    main()
