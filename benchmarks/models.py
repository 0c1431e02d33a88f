"""Every model for one epoch of made-up data, in one process with one thread: what it learns, and how fast.

python benchmarks/models.py --json benchmarks/results/models.json
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from harness import write_results
from peers import BIN, ENVIRON
from rich.console import Console
from rich.table import Table

SCRIPT = Path(__file__).parents[1] / "examples" / "recommenders" / "train.py"
CLICKS = ["--data", "synthetic:100000"]
VISITS, FEWER_VISITS = (["--data", f"sessions:{count}", "--row-lr", "0.1"] for count in (100_000, 50_000))
MODELS = {
    **dict.fromkeys(("dnn", "wide_deep", "deepfm", "xdeepfm", "dcn", "dlrm", "finalnet"), CLICKS),
    **dict.fromkeys(("din", "dien", "mmoe", "ple", "esmm", "two_tower"), VISITS),
    **dict.fromkeys(("sasrec", "hstu"), FEWER_VISITS),
}
LIMIT_S = 1800


def train(model: str) -> dict[str, Any]:
    """One epoch; what train.py says of it."""
    with TemporaryDirectory() as folder:
        options = ["--model", model, *MODELS[model], "--mode", "local", "--batch-size", "500", "--out", folder]
        command = [str(BIN / "python"), str(SCRIPT), *options]
        subprocess.run(command, cwd=folder, env=ENVIRON, check=True, timeout=LIMIT_S, stdout=sys.stderr)
        found: dict[str, Any] = json.loads((Path(folder) / "result.json").read_text())
    return {"case": model, "options": MODELS[model], **found}


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(MODELS)), help="Only these models. May be repeated.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(only: tuple[str, ...], path: Path | None) -> None:
    cases = [train(model) for model in only or MODELS]
    table = Table("model", "AUC or HR@10", "samples/s", title="One epoch, one process, one thread, batch 500")
    for case in cases:
        table.add_row(case["case"], f"{case.get('AUC', case.get('HR@10', 0)):.4f}", f"{case['samples_per_s']:,.0f}")
    Console().print(table)
    if path is not None:
        options = [f"--only {model}" for model in only]
        write_results(path, cases, command=" ".join(["python benchmarks/models.py", *options]))


if __name__ == "__main__":
    main()
