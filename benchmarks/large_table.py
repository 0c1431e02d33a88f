"""A table larger than memory in a real job of one server and one worker: filled, trained, killed, saved and loaded.

    python benchmarks/large_table.py --rows 600000000 --memory 4G --json benchmarks/results/large_table.json

Rows are of width 8 with Adagrad: 80 bytes on the disk. Training is CTR-DNN, batch 1000, 26 ids each, drawn by Zipf's
law from all rows; the same steps on a table that is all in memory take turns with it. The journal and the table's files
are under --folder (build/large-job), which is removed at the end: about 100 bytes a row. --loaded FOLDER begins with a
checkpoint instead of filling the table by pushes. `benchmarks/scripts/large_fleet.py` is what the processes run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import click
from harness import write_results
from peers import BIN

SCRIPT = Path(__file__).parent / "scripts" / "large_fleet.py"
ROOT = Path(__file__).parents[1]


@click.command()
@click.option("--rows", default=20_000_000, show_default=True)
@click.option("--memory", default="140M", show_default=True, help="What the table may take of the server's memory.")
@click.option("--exponent", default=(1.05, 1.2), multiple=True, show_default=True, help="Of Zipf's law.")
@click.option("--warmup", default=5, show_default=True, help="Turns of 20 steps before those that count.")
@click.option("--turns", default=9, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "build" / "large-job", show_default=True)
@click.option("--loaded", type=click.Path(path_type=Path, exists=True), help="A checkpoint to begin with.")
@click.option("--warm", default=0, show_default=True, help="Push so many of the most frequent rows once more, first.")
@click.option("--only-train", is_flag=True, help="Neither kill the server nor save.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(
    rows: int,
    memory: str,
    exponent: tuple[float, ...],
    warmup: int,
    turns: int,
    folder: Path,
    loaded: Path | None,
    warm: int,
    only_train: bool,
    path: Path | None,
) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    out = folder / "out.jsonl"
    job = [BIN / "fleetrun", "--server_num", "1", "--worker_num", "1", "--durable", folder / "durable"]
    work = [SCRIPT, "--rows", rows, "--memory", memory, "--warmup", warmup, "--turns", turns, "--out", out]
    more = [*(part for each in exponent for part in ("--exponent", each)), "--checkpoint", folder / "checkpoint"]
    more += [] if loaded is None else ["--loaded", loaded.absolute()]
    more += ["--warm", warm, *(["--only-train"] if only_train else [])]
    try:
        command = [str(part) for part in [*job, "--log_dir", folder / "log", *work, *more]]
        subprocess.run(command, check=True, env={**os.environ, "FLEET_RPC_TIMEOUT_S": "1800"})
    finally:
        cases = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
        if path is not None and cases:
            options = f"--rows {rows} --memory {memory} --warmup {warmup} --turns {turns} --warm {warm}"
            options += (" --loaded FOLDER" if loaded else "") + (" --only-train" if only_train else "")
            write_results(path, cases, command=f"python benchmarks/large_table.py {options}", row_bytes=80, width=8)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
