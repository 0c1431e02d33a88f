"""CTR-DNN with processes bound to cores in several ways: 8 + 8 as a share of eight times 1 + 1.

    python benchmarks/bound.py --json benchmarks/results/bound.json

The ways take turns inside each job, jobs take turns too; quoted are medians. With `--compute`, beside each way: the
model's dense layers alone, in all workers at once, which shows what the machine itself allows.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from ctr import median_of
from harness import write_results
from peers import BIN, Command, run
from rich.console import Console
from rich.table import Table
from scale import parse_jobs
from turns import take_turns

sys.path.insert(0, str(Path(__file__).parent / "scripts"))
from bound_fleet import topology, ways

SCRIPT = Path(__file__).parent / "scripts" / "bound_fleet.py"
BATCH = 1000
BETWEEN = ("next", "forward", "backward")
Block = dict[str, Any]
Variables = Mapping[str, str]
THREADS = {"as fleetrun says": {}, "1": {"FLEET_NATIVE_THREADS": "1"}}


def job(
    mode: str, servers: int, workers: int, variables: Variables, options: Sequence[str], folder: Path
) -> list[list[Block]]:
    """Run a job; by block, what each worker found."""
    given = [f"{name}={value}" for name, value in variables.items()]
    start: Command = ["env", *given, BIN / "fleetrun", "--server_num", str(servers), "--worker_num", str(workers)]
    script: Command = [SCRIPT, "--mode", mode, *options, "--out", folder]
    run([*start, "--log_dir", folder / "log", *script], folder)
    found = [json.loads((folder / f"worker{index}.json").read_text()) for index in range(workers)]
    return [list(block) for block in zip(*found, strict=True)]


def ms(block: Sequence[Block]) -> dict[str, float]:
    """Of one block: ms a batch of the job, and of its parts, a mean of workers."""
    first, batches = block[0], block[0]["batches"]
    took = max(one["end"] for one in block) - min(one["begin"] for one in block)
    found = {"batch": 1000 * took / batches}
    found["own"] = 1000 * statistics.mean(one["own_end"] - one["begin"] for one in block) / batches
    for kind, prefix in (("parts_s", ""), ("meters_s", "ps.")):
        for part in first[kind]:
            found[prefix + part] = 1000 * statistics.mean(one[kind].get(part, 0.0) for one in block) / batches
    if first["raw_s"]:
        # What a worker does between two steps: of all of them, of the slowest in each step, of the slowest throughout.
        own = [
            [1000 * sum(parts) for parts in zip(*(one["raw_s"][part] for part in BETWEEN), strict=True)]
            for one in block
        ]
        found["between"] = statistics.mean(statistics.mean(each) for each in own)
        found["slowest in a step"] = statistics.mean(max(each) for each in zip(*own, strict=True))
        found["slowest worker"] = max(statistics.mean(each) for each in own)
    found["stolen"] = 1000 * first["stolen_s"] / batches / len(block)
    for who, seconds in first["cpu_s"].items():
        found[f"cpu.{who}"] = 1000 * seconds / batches / len(block)
    return found


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=2, show_default=True, help="How often each job is run.")
@click.option("--blocks", type=click.IntRange(1), default=2, show_default=True, help="Blocks of each way in a job.")
@click.option("--steps", type=click.IntRange(1), default=40, show_default=True, help="Batches of a block.")
@click.option("--job", "jobs", multiple=True, default=("1+1", "8+8"), callback=parse_jobs, show_default=True)
@click.option("--mode", "modes", multiple=True, default=("async", "sync"), show_default=True)
@click.option("--way", "chosen", multiple=True, type=click.Choice(list(ways())), help="May be repeated.")
@click.option("--compute", is_flag=True, help="Beside each block, the dense layers alone in all workers at once.")
@click.option("--one-thread", is_flag=True, help="Also 1 + 1 with FLEET_NATIVE_THREADS=1.")
@click.option("--within-s", type=float, default=float("inf"))
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(
    rounds: int,
    blocks: int,
    steps: int,
    jobs: Sequence[tuple[int, int]],
    modes: Sequence[str],
    chosen: Sequence[str],
    compute: bool,
    one_thread: bool,
    within_s: float,
    path: Path | None,
) -> None:
    contestants = {}
    options = ["--steps", str(steps), "--rounds", str(blocks), *(w for way in chosen for w in ("--way", way))]
    options += ["--compute"] if compute else []
    for mode in modes:
        for servers, workers in jobs:
            for threads, variables in THREADS.items():
                if threads == "1" and (workers > 1 or not one_thread):
                    continue
                key = (mode, servers, workers, threads)
                contestants[key] = partial(job, mode, servers, workers, variables, options)
    found, failures = take_turns({str(key): call for key, call in contestants.items()}, rounds, within_s=within_s)
    cases = []
    for key in contestants:
        mode, servers, workers, threads = key
        measured: dict[tuple[str, str], list[dict[str, float]]] = {}
        for one in found[str(key)]:
            for block in one:
                measured.setdefault((block[0]["way"], block[0]["kind"]), []).append(ms(block))
        for (way, kind), values in measured.items():
            cases.append(
                {
                    "mode": mode,
                    "servers": servers,
                    "workers": workers,
                    "native_threads": threads,
                    "way": way,
                    "kind": kind,
                    "raw_ms_a_batch": [value["batch"] for value in values],
                    "samples_per_s": workers * BATCH * 1000 / statistics.median(value["batch"] for value in values),
                    "ms_per_batch": median_of(values),
                }
            )
    show(cases)
    if path is not None:
        words = [f"--rounds {rounds}", f"--blocks {blocks}", f"--steps {steps}", f"--within-s {within_s:g}"]
        words += [f"--job {servers}+{workers}" for servers, workers in jobs] + [f"--mode {mode}" for mode in modes]
        words += [f'--way "{way}"' for way in chosen]
        words += [name for name, given in (("--compute", compute), ("--one-thread", one_thread)) if given]
        command = " ".join(["python benchmarks/bound.py", *words])
        write_results(path, cases, command=command, topology=topology(), failures=failures)


def show(cases: Sequence[Mapping[str, Any]]) -> None:
    console = Console(width=240)
    console.print(json.dumps(topology()), soft_wrap=True)
    table = Table(title="ms a batch, medians")
    parts = ["batch", "own", "next", "forward", "backward", "step", "ps.pull", "ps.wait", "ps.dense", "ps.route"]
    parts += ["ps.push", "between", "slowest in a step", "slowest worker", "stolen", "cpu.workers", "cpu.servers"]
    for header in ("case", "way", "samples/s", "least ms", *parts):
        table.add_column(header, no_wrap=True)
    for case in cases:
        name = f"{case['mode']} {case['servers']}+{case['workers']}{' t1' if case['native_threads'] == '1' else ''}"
        values = case["ms_per_batch"]
        table.add_row(
            f"{name} {case['kind'][0]}",
            case["way"][:40],
            f"{case['samples_per_s']:,.0f}",
            f"{min(case['raw_ms_a_batch']):.1f}",
            *(f"{values[part]:.1f}" if part in values else "" for part in parts),
        )
    console.print(table)


if __name__ == "__main__":
    main()
