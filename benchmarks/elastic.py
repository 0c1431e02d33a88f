"""Workers 2 -> 8 -> 1 and servers 2 -> 4 -> 2 during an epoch, beside the same job that does not change.

    python benchmarks/elastic.py --rounds 1 --folder benchmarks/results     # writes elastic_MODE.json

Measured are how many samples were trained on exactly once, the AUC on other samples, and the longest time between two
steps of a worker while others come and go, with what the same job had without a change.

In synchronous modes a step has one batch of each worker. In mode `sync` it applies their sum, and samples count alike
in both jobs. In mode `mean` a sample of a step of eight workers counts an eighth of one of a worker alone, so the two
jobs train with other rates: that their AUC differs is no loss.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
from harness import write_results
from rich.console import Console

PROGRAM = Path(__file__).parent / "scripts" / "elastic_fleet.py"
NUM_TRAIN, NUM_TEST, NUM_FILES = 120_000, 40_000, 16
NUM_FIELDS, NUM_IDS = 4, 1000
LIMIT_S = 500.0
FLEETRUN = [sys.executable, "-m", "fleet.launch"]


def write(folder: Path) -> None:
    """Clicks whose odds are a sum over ids."""
    rng = np.random.default_rng(7)
    weights = rng.normal(0, 1, (NUM_FIELDS, NUM_IDS))
    num = NUM_TRAIN + NUM_TEST
    ids = rng.integers(0, NUM_IDS, (num, NUM_FIELDS))
    logits = sum(weights[field, ids[:, field]] for field in range(NUM_FIELDS))
    labels = (rng.random(num) < 1 / (1 + np.exp(-logits))).astype(np.float32)
    np.savez(folder / "test.npz", ids=ids[NUM_TRAIN:], labels=labels[NUM_TRAIN:], num_train=NUM_TRAIN)
    (folder / "train").mkdir()
    for part, rows in enumerate(np.array_split(np.arange(NUM_TRAIN), NUM_FILES)):
        lines = ("\t".join(map(str, (int(labels[row]), row, *ids[row]))) for row in rows.tolist())
        (folder / "train" / f"part-{part:02}.tsv").write_text("\n".join(lines) + "\n")


def steps(folder: Path) -> dict[str, list[float]]:
    """When each worker's process has made each step."""
    return {path.name: [float(line) for line in path.read_text().split()] for path in folder.glob("steps.*")}


def num_at_work(folder: Path) -> int:
    """How many workers have made a step."""
    return len({name.split(".")[1] for name, times in steps(folder).items() if times})


def await_(condition: Callable[[], object], what: str) -> None:
    """Wait, not for ever."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise click.ClickException(f"waited {LIMIT_S:g} s for {what}")
        time.sleep(0.05)


def change(folder: Path) -> dict[str, float]:
    """Change both numbers as the title says; how long each change took."""
    took = {}
    await_(lambda: num_at_work(folder) == 1, "the first step")
    for arguments in ("--workers 2", "--workers 8", "--servers 4", "--workers 1", "--servers 2"):
        began = time.monotonic()
        subprocess.run([*FLEETRUN, "scale", "kept", *arguments.split()], cwd=folder, check=True, capture_output=True)
        took[arguments] = round(time.monotonic() - began, 2)
        if arguments == "--workers 8":
            await_(lambda: num_at_work(folder) == 8, "all eight to train")
    return took


def run(mode: str, *, is_changed: bool) -> dict[str, Any]:
    """One job."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        numbers = ["2:4", "1:8"] if is_changed else ["2", "2"]
        counts = ["--server_num", numbers[0], "--worker_num", numbers[1]]
        command = [*FLEETRUN, *counts, "--durable", "kept", str(PROGRAM), mode]
        job = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            if is_changed:
                took = change(folder)
            else:
                await_(lambda: num_at_work(folder) == 2, "both to train")
                took = {}
                time.sleep(10)
            until = time.time()
            (folder / "fast").touch()
            _, err = job.communicate(timeout=LIMIT_S)
        finally:
            job.kill()
        if job.returncode:
            raise click.ClickException(err)
        gaps = [
            after - before for times in steps(folder).values() for before, after in pairwise(times) if after < until
        ]
        found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    found |= {"mode": mode, "is_changed": is_changed, "took_s": took, "steps": len(gaps)}
    return found | {"longest_gap_s": round(max(gaps), 2), "median_gap_s": round(float(np.median(gaps)), 3)}


@click.command()
@click.option("--rounds", default=3, show_default=True)
@click.option("--modes", default="async,sync,mean", show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), help="Write elastic_MODE.json there for each mode.")
def main(rounds: int, modes: str, folder: Path | None) -> None:
    """Run both jobs in turns."""
    for mode in modes.split(","):
        cases = []
        for _ in range(rounds):
            for is_changed in (False, True):
                cases.append(run(mode, is_changed=is_changed))
                Console().print(cases[-1])
                if folder is not None:
                    write_results(folder / f"elastic_{mode}.json", cases)


if __name__ == "__main__":
    main()
