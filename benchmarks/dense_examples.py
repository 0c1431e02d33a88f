"""ResNet-50, Transformer base, BERT-base and BERT-large on one GPU: items and tokens a second, MFU, memory.

python benchmarks/dense_examples.py --json benchmarks/results/dense_examples.json

Each is its example, started as a user starts it, with made-up data that lies on the card, and measured by itself behind
its first steps, in which it is compiled. A case is run --repeats times and the median of its MFU counts.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
from harness import write_results
from rich.console import Console
from rich.table import Table

EXAMPLES = Path(__file__).parents[1] / "examples"
CASES = {
    "resnet50": "resnet50 --preset base --batch-size 256 --data synthetic:2048 --steps 120",
    "transformer": "transformer --preset base --data synthetic:20000 --steps 160 --warm-up 60",
    "bert-base": "bert --preset base --batch-size 256 --data synthetic:8192 --steps 120",
    "bert-large": "bert --preset large --batch-size 256 --data synthetic:8192 --steps 80",
    "bert-large-512": "bert --preset large512 --batch-size 64 --data synthetic:2048 --steps 80",
}
COMMON = ("--measure", "--auto", "--show-every", "40")
LIMIT_S = 1200.0


def run(case: str, more: tuple[str, ...]) -> dict[str, Any]:
    """The line of JSON of one run."""
    name, *options = CASES[case].split()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(EXAMPLES / name / "train.py"), "--out", folder, *options, *COMMON, *more]
        subprocess.run(command, check=True, timeout=LIMIT_S, stdout=sys.stderr)
        found: dict[str, Any] = json.loads(Path(folder, "result.json").read_text())
    return found


@click.command(help=__doc__)
@click.option("--case", "names", multiple=True, type=click.Choice(list(CASES)), help="Default: all.")
@click.option("--repeats", default=1, show_default=True)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write the results there.")
@click.argument("more", nargs=-1)
def main(names: tuple[str, ...], repeats: int, path: Path | None, more: tuple[str, ...]) -> None:
    """`more`, after --, goes to every example: -- --kernel-search wide."""
    table = Table(title="the examples on one card")
    for column in ("", "items/s", "tokens/s", "TFLOP/s", "MFU", "GB"):
        table.add_column(column, justify="right")
    cases = []
    for name in names or tuple(CASES):
        raw = [run(name, more) for _ in range(repeats)]
        one = sorted(raw, key=lambda found: found["tflops"])[len(raw) // 2]
        items = next(value for key, value in one.items() if key.endswith("_per_s") and key != "tokens_per_s")
        mfu = "unknown" if one["mfu"] is None else f"{one['mfu']:.1%}"
        tokens = f"{one['tokens_per_s']:,.0f}" if "tokens_per_s" in one else ""
        memory = f"{one['memory_bytes'] / 1e9:.1f}"
        table.add_row(name, f"{items:,.0f}", tokens, f"{one['tflops']:.0f}", mfu, memory)
        median = statistics.median(found["tflops"] for found in raw)
        cases.append({"case": name, "options": CASES[name].split()[1:], "median_tflops": median, "raw": raw})
    Console().print(table)
    if path is not None:
        write_results(path, cases, options=[*COMMON, *more])


if __name__ == "__main__":
    main()
