"""What Ray adds to a job: a small click job by fleetrun and by Ray, in turns.

    make engines      # installs Ray into build/engines-ray
    python benchmarks/ray_overhead.py --json benchmarks/results/ray_overhead.json     # minutes: about three

Both are durable: 2 servers and 2 workers, in sync mode, with a journal. The Ray cluster of three nodes runs already.
Measured are the seconds from the start of the command to the end of worker 0's first step, and samples/s behind the
first 100 steps. What it does when something is killed, `engine_kills.py` measures.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from harness import write_results

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from engines.ray_cluster import PYTHON, running  # noqa: E402

SCRIPT = Path(__file__).parent / "scripts" / "ray_clicks.py"
LIMIT_S = 300.0


def run(command: list[str], out: Path) -> tuple[float, float]:
    """Seconds to the first step, and samples/s."""
    began = time.time()
    subprocess.run(command, check=True, timeout=LIMIT_S, cwd=out.parent, stdout=subprocess.DEVNULL)
    found = json.loads(out.read_text())
    return found["first_step_at"] - began, found["samples_per_s"]


@click.command()
@click.option("--rounds", default=3, show_default=True)
@click.option("--steps", default=1000, show_default=True)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(rounds: int, steps: int, path: Path | None) -> None:
    firsts: dict[str, list[float]] = {"fleetrun": [], "Ray": []}
    rates: dict[str, list[float]] = {"fleetrun": [], "Ray": []}
    with TemporaryDirectory() as name, running() as cluster:
        folder = Path(name)
        for turn in range(rounds):
            for kind in firsts:
                out = folder / f"{kind}-{turn}.json"
                config = json.dumps({"steps": steps, "out": str(out)})
                fleetrun = [str(ROOT / ".venv/bin/fleetrun"), "--quiet", "--server_num", "2", "--worker_num", "2"]
                fleetrun += ["--durable", f"{folder}/kept-{turn}", "--log_dir", f"{folder}/log-{turn}", str(SCRIPT)]
                by_ray = [str(PYTHON), str(SCRIPT), "--ray", cluster.address, name]
                first_s, rate = run([*(fleetrun if kind == "fleetrun" else by_ray), config], out)
                firsts[kind].append(first_s)
                rates[kind].append(rate)
                print(f"{kind}: first step after {first_s:.1f} s, {rate:,.0f} samples/s", flush=True)
    cases: list[dict[str, Any]] = [
        {
            "case": kind,
            "first_step_s": firsts[kind],
            "median_first_step_s": statistics.median(firsts[kind]),
            "samples_per_s": rates[kind],
            "median_samples_per_s": statistics.median(rates[kind]),
        }
        for kind in firsts
    ]
    if path is not None:
        write_results(path, cases)


if __name__ == "__main__":
    main()
