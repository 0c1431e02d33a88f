"""What Ray adds to a job: a small click job by fleetrun and by Ray, in turns; and its pauses when something is killed.

    make engines      # installs Ray into build/engines-ray
    python benchmarks/ray_overhead.py --json benchmarks/results/ray_overhead.json

Both are durable: 2 servers and 2 workers, in sync mode, with a journal. The Ray cluster of three nodes runs already.
Measured are the seconds from the start of the command to the end of worker 0's first step, and samples/s behind the
first 100 steps. For the pauses a worker, a server and a node are killed; a pause is the longest time between two steps.
"""

from __future__ import annotations

import json
import os
import signal
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

from engines.ray_cluster import PYTHON, HeldCluster, running  # noqa: E402

SCRIPT = Path(__file__).parent / "scripts" / "ray_clicks.py"
LIMIT_S = 300.0


def run(command: list[str], out: Path) -> tuple[float, float]:
    """Seconds to the first step, and samples/s."""
    began = time.time()
    subprocess.run(command, check=True, timeout=LIMIT_S, cwd=out.parent, stdout=subprocess.DEVNULL)
    found = json.loads(out.read_text())
    return found["first_step_at"] - began, found["samples_per_s"]


def pauses(cluster: HeldCluster, folder: Path, rounds: int) -> dict[str, list[float]]:
    """How long worker 0 made no step when each of these was killed."""
    found: dict[str, list[float]] = {"worker": [], "server": [], "node": []}
    job = cluster.start("served", folder=str(folder), steps=300 + 600 * rounds)
    step = 100
    for _ in range(rounds):
        for what, killed in found.items():
            job.wait_for(step)
            at = time.time()
            if what == "node":
                cluster.ask("remove")
            else:
                pid = job.steps(1)[-1][1] if what == "worker" else cluster.pids("ServerActor")[0]
                os.kill(pid, signal.SIGKILL)
            step += 200
            job.wait_for(step)
            killed.append(job.pause_s(at))
        cluster.ask("add")
    job.result(600)
    return found


@click.command()
@click.option("--rounds", default=5, show_default=True)
@click.option("--steps", default=1500, show_default=True)
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
        killed = pauses(cluster, folder / "killed", min(rounds, 3))
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
    for what, seconds in killed.items():
        cases.append({"case": f"{what} killed", "pause_s": seconds, "median_pause_s": statistics.median(seconds)})
        print(f"{what} killed: pauses of {', '.join(f'{one:.1f}' for one in seconds)} s")
    if path is not None:
        write_results(path, cases)


if __name__ == "__main__":
    main()
