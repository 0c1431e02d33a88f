"""One run of a job under faults that a seed decides, and whether it came out as it would have without them."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from chaos import loops
from chaos.state import digest_of, times_trained
from support.jobs import Result, fleetrun
from support.warm_server import FORK_BESIDE_THREADS

SCRIPT, LOOPS = Path(__file__).with_name("job.py"), Path(loops.__file__)
NUM_SAMPLES, EPOCHS = 1280, 4
SNAPSHOT_BYTES = 200_000
LIMIT_S = 300.0
ENVIRON = {"OMP_NUM_THREADS": "1", FORK_BESIDE_THREADS: "1"}
# What a sample adds to its row of the epoch: in sync mode the mean of two workers is taken.
COUNTS = {"sync": 0.5, "geo": 1.0, "async": 1.0, "half": 1.0}
# From the job's start: before the first process has joined, until after a job that nothing happened to has ended.
FIRST_S, LAST_S = 0.2, 3.5


@dataclass
class Outcome:
    """How one run went."""

    mode: str
    seed: int
    chaos: str
    seconds: float
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """What was done to it, how often."""
    recoveries: list[dict[str, Any]] = field(default_factory=list)
    digest: str = ""
    said: str = ""
    """What fleetrun said, of a run with problems."""

    @property
    def name(self) -> str:
        """`sync:17`, as `--only` takes it."""
        return f"{self.mode}:{self.seed}"


def faults_of(mode: str, seed: int, last_s: float = LAST_S) -> str:
    """The text of `--chaos` for one run: processes are killed, one write is torn, calls are lost and repeated."""
    rng = random.Random(f"{mode} {seed}")
    kinds = ["kill server", "kill worker", "kill both", "torn-write"]
    chosen = [kinds[seed // 2 % 4], *rng.sample(kinds, rng.randint(0, 2))]
    clauses = [f"{kind} at {round(rng.uniform(FIRST_S, last_s) * 1000)}ms" for kind in chosen]
    return "; ".join([*clauses, "drop 1% rpc", f"repeat {rng.randint(1, 3)}% rpc"])


def loop_of(seed: int) -> list[str]:
    """How the script of a seed trains: its loop, its optimizers, how much it accumulates, whether it stops early."""
    loop = ["files", "shard", "ahead", "steps", "range"][seed % 5]
    accumulate = 1 + (seed // 5 % 2) * (loop in ("files", "shard", "ahead"))
    chosen = {"loop": loop, "optimizers": 2 + (seed // 10 % 4 > 2), "accumulate": accumulate}
    chosen |= {"patience": [100, 2][seed // 5 % 2], "epochs": 3 * accumulate}
    return [text for name, value in chosen.items() for text in (f"--{name}", str(value))]


def arguments_of(mode: str, seed: int, folder: Path, chaos: str | None, epochs: int) -> list[object]:
    """Those of fleetrun; without chaos the job is the undisturbed one."""
    faults = [] if chaos is None else ["--durable", folder / "kept", "--chaos", chaos, "--seed", seed]
    if mode == "loops":
        job = [LOOPS, *loop_of(seed), "--save", folder / "saved"]
        return ["--server_num", 2, "--worker_num", 2, "--log_dir", folder / "log", *faults, *job]
    size = ["--samples", NUM_SAMPLES, "--epochs", epochs]
    snapshots = ["--snapshot_bytes", SNAPSHOT_BYTES if seed % 2 else 0]  # half of the runs see none
    job = [SCRIPT, "--mode", mode, *size, *snapshots, "--save", folder / "saved"]
    return ["--server_num", 2, "--worker_num", 2, "--log_dir", folder / "log", *faults, *job]


def undisturbed(mode: str, folder: Path, epochs: int = EPOCHS, seed: int = 0) -> str:
    """The digest of a run that nothing happens to."""
    result = _run(mode, seed, folder, None, epochs)
    assert result.code == 0, result.err
    return digest_of(folder / "saved")


def run(
    mode: str,
    seed: int,
    folder: Path,
    expected: str,
    *,
    chaos: str | None = None,
    epochs: int = EPOCHS,
    keeps: bool = False,
) -> Outcome:
    """Run the job under the faults of a seed, or those given; `expected` is the digest of an undisturbed sync run.

    The folder is removed, unless `keeps` or something was wrong.
    """
    began = time.monotonic()
    undone: list[Any] = []
    if mode == "loops":  # each seed has a script of its own
        expected = undisturbed(mode, folder, epochs, seed)
        undone = _found(folder)
    chaos = chaos or faults_of(mode, seed, LAST_S if mode != "loops" else time.monotonic() - began)
    outcome = Outcome(mode, seed, chaos, 0.0)
    try:
        result = _run(mode, seed, folder, chaos, epochs)
    except AssertionError as error:  # it did not end
        outcome.problems.append(str(error).partition("\n")[0])
        outcome.said = str(error)
    else:
        _judge(outcome, result, folder, expected, epochs)
        if mode == "loops" and result.code == 0 and _found(folder) != undone:
            outcome.problems.append(f"workers found {_found(folder)}, undisturbed {undone}")
    outcome.seconds = time.monotonic() - began
    if not outcome.problems and not keeps:
        shutil.rmtree(folder)
    return outcome


def _run(mode: str, seed: int, folder: Path, chaos: str | None, epochs: int) -> Result:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if mode == "loops":
        loops.write_files(folder / "data")
    start = partial(fleetrun, cwd=folder, limit_s=LIMIT_S, warm=True)
    return start(*arguments_of(mode, seed, folder, chaos, epochs), environ=ENVIRON)


def _judge(outcome: Outcome, result: Result, folder: Path, expected: str, epochs: int) -> None:
    if result.code != 0:
        outcome.problems.append(f"exit code {result.code}")
    report = folder / "log" / "chaos.json"
    if report.exists():
        found = json.loads(report.read_text())
        outcome.counts.update(found["counts"])
        outcome.recoveries = found["recoveries"]
        outcome.problems += [f"{one['name']}: {one['text']}" for one in found["invariants"] if one["holds"] is not True]
    else:
        outcome.problems.append("no chaos.json")
    if result.code == 0:
        outcome.digest = digest_of(folder / "saved")
        if outcome.mode in ("sync", "loops") and outcome.digest != expected:
            outcome.problems.append("the final tables are not those of the undisturbed run")
        if outcome.mode != "loops":
            outcome.problems += _wrong_counts(outcome.mode, folder, epochs)
        if left := [path.name for path in (folder / "kept").glob("*/*") if path.name != "lock"]:
            outcome.problems.append(f"files are left in the folder of --durable: {', '.join(sorted(left))}")
    if outcome.problems:
        outcome.said = result.err


def _found(folder: Path) -> list[Any]:
    """What the workers of a script of `loops` have found."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("found-*.json"))]


def _wrong_counts(mode: str, folder: Path, epochs: int) -> list[str]:
    """Samples that did not count once in each epoch."""
    found, once = times_trained(folder / "saved"), COUNTS[mode]
    visits = range(epochs * NUM_SAMPLES)
    wrong = [visit for visit in visits if found.get(visit) != once]
    if not wrong and len(found) == len(visits):
        return []
    some = ", ".join(
        f"{visit % NUM_SAMPLES} in epoch {visit // NUM_SAMPLES}: {found.get(visit, 0.0) / once:g}"
        for visit in wrong[:4]
    )
    return [f"{len(wrong)} of {len(visits)} times a sample did not count once, such as {some}"]
