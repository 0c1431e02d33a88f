"""What does a checkpoint cost that has only what changed? One server, Adagrad, rows of 16, 1% of which are trained.

    python benchmarks/increments.py --rows 10000000 --json benchmarks/results/increments.json

A job of `fleetrun` with one server and one worker fills a table and trains a model of 26 ids a sample, in batches of
2,048, on its hot keys, all of them between any two saves of `fleet.Checkpoint`: whole ones and increments in turn.
Quoted are medians: the bytes of a save, the seconds until it is committed, how long `save` holds the training up, and
the longest step while it is written, beside a step without a save. `--rows` is small by default, for a quick look.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from harness import Timing, measure, write_results
from peers import BIN, RunError

WIDTH, BATCH, FIELDS, AT_ONCE = 16, 2048, 26, 200_000
QUIET_STEPS = 50
LIMIT_S = 3600.0
JOB = "FLEET_BENCHMARK_INCREMENTS"


def job(rows: int, touched: float, mode: str, saves: int, folder: Path) -> None:
    """The script of server and worker: train, save, and write down what it took."""
    import numpy as np
    import torch

    import fleet

    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode == "async"
    fleet.init(strategy=strategy)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    table = fleet.nn.Embedding(WIDTH, table="rows", rule=fleet.rules.Adagrad(lr=0.01))
    layers = [torch.nn.Linear(FIELDS * WIDTH, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)]
    model = fleet.distributed_model(torch.nn.Sequential(table, torch.nn.Flatten(), *layers))
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters()))
    fleet.init_worker()
    for begin in range(0, rows, AT_ONCE):
        keys = torch.arange(begin, min(begin + AT_ONCE, rows))
        fleet.load_rows("rows", keys, torch.rand(len(keys), WIDTH))
    random = np.random.default_rng(0)
    hot = torch.from_numpy(random.permutation(rows)[: int(rows * touched)])

    def step(number: int) -> float:
        ids = hot[torch.arange(number * BATCH * FIELDS, (number + 1) * BATCH * FIELDS) % len(hot)]
        began = time.perf_counter()
        optimizer.zero_grad()
        model(ids.view(BATCH, FIELDS)).square().mean().backward()
        optimizer.step()
        return time.perf_counter() - began

    each = max(QUIET_STEPS, -(-len(hot) // (BATCH * FIELDS)))
    quiet = [step(number) for number in range(2 * each)][each:]
    found: list[dict[str, Any]] = []
    full_every = saves // 2
    with fleet.Checkpoint(folder / "saves", model=model, optimizer=optimizer, keep=100, full_every=full_every) as saved:
        for number in range(1, saves + 1):
            began = time.perf_counter()
            saved.save(number)
            held, during, at = time.perf_counter() - began, [], 0
            path = folder / "saves" / f"step-{number:08}" / "manifest.json"
            while not path.exists() or at < each:
                took = step(at)
                at += 1
                if not path.exists():
                    during.append(took)
                elif not found or found[-1]["save"] != number:
                    found.append({"save": number, "written_s": time.perf_counter() - began})
            saved.wait()
            manifest = json.loads(path.read_text())
            size = sum(file.stat().st_size for file in path.parent.iterdir())
            found[-1] |= {"held_s": held, "longest_step_s": max(during, default=0.0), "bytes": size}
            found[-1]["kind"] = "increment" if "parent" in manifest else "whole"
    (folder / "found.json").write_text(json.dumps({"quiet_step_s": quiet, "saves": found}))
    fleet.stop_worker()


def run(rows: int, touched: float, mode: str, saves: int) -> dict[str, Any]:
    """Run the job once."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        arguments = json.dumps([rows, touched, mode, saves, name])
        command = [BIN / "fleetrun", "--server_num", 1, "--worker_num", 1, Path(__file__).resolve()]
        done = subprocess.run(
            list(map(str, command)),
            cwd=folder,
            env={**os.environ, JOB: arguments},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
            check=False,
        )
        if done.returncode:
            raise RunError(done.stdout.decode()[-2000:])
        found: dict[str, Any] = json.loads((folder / "found.json").read_text())
        return found


def noting(rows: int, touched: float) -> dict[str, Timing]:
    """Push the same keys into a table that notes nothing, one that has noted them, and one that notes them anew."""
    import numpy as np

    from fleet import _native

    random = np.random.default_rng(0)
    keys = np.arange(rows, dtype=np.int64)
    hot = random.permutation(keys)[: int(rows * touched)]
    grads = random.random((len(hot), WIDTH), np.float32)
    tables, uniform = {}, {"low": -0.1, "high": 0.1}
    for name in ("plain", "noted", "anew"):
        table = tables[name] = _native.Table("rows", WIDTH, "adagrad", {"lr": 0.01}, "uniform", uniform, "always", {})
        for begin in range(0, rows, AT_ONCE):
            some = keys[begin : begin + AT_ONCE]
            table.assign(some, np.zeros((len(some), WIDTH), np.float32))
    watchers = {name: tables[name].watch() for name in ("noted", "anew")}

    def push(name: str) -> None:
        if name == "anew":
            tables[name].touched(watchers[name], forget=True)
        tables[name].push(hot, grads, step=1, lr=0.01)

    return measure({name: partial(push, name) for name in tables}, repeats=21)


@click.command()
@click.option("--rows", default=200_000, help="Rows of the table.")
@click.option("--touched", default=0.01, help="Which part of them is trained between two saves.")
@click.option("--mode", type=click.Choice(["sync", "async"]), default="async")
@click.option("--saves", default=12, help="How many in all; two of them are whole.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Where the results file goes.")
def main(rows: int, touched: float, mode: str, saves: int, path: Path | None) -> None:
    """Compare increments with whole saves."""
    found = run(rows, touched, mode, saves)
    quiet = statistics.median(found["quiet_step_s"])
    cases = []
    for kind in ("whole", "increment"):
        own = [one for one in found["saves"] if one["kind"] == kind]
        case: dict[str, Any] = {"kind": kind, "rows": rows, "touched": touched, "mode": mode, "saves": own}
        for name in ("bytes", "written_s", "held_s", "longest_step_s"):
            case[name] = statistics.median(one[name] for one in own)
        cases.append(case)
        print(
            f"{kind:>9}, {len(own)} saves: {case['bytes'] / 1e6:9.2f} MB, {case['written_s']:6.2f} s, training held up "
            f"{1000 * case['held_s']:7.1f} ms (most {1000 * max(one['held_s'] for one in own):.1f}), longest step "
            f"{1000 * case['longest_step_s']:.1f} ms"
        )
    ratio = cases[0]["bytes"] / cases[1]["bytes"]
    held = cases[1]["held_s"] / quiet
    print(f"an increment is {ratio:.1f} times smaller and holds up {held:.2f} steps of {1000 * quiet:.1f} ms")
    notes = noting(rows, touched)
    noted = {name: notes[name].median_s / notes["plain"].median_s for name in ("noted", "anew")}
    print(
        f"a push of the hot keys into a table that notes them takes {noted['noted']:.3f} times as long, where they are "
        f"noted anew {noted['anew']:.3f} times"
    )
    if path is not None:
        pushes = {name: timing.to_json() for name, timing in notes.items()}
        more = {"ratio": ratio, "steps_held_up": held, "noted": noted, "pushes": pushes}
        write_results(path, cases, quiet_step_s=found["quiet_step_s"], **more)


if __name__ == "__main__":
    if JOB in os.environ:
        rows, touched, mode, saves, folder = json.loads(os.environ[JOB])
        job(rows, touched, mode, saves, Path(folder))
    else:
        sys.exit(main())
