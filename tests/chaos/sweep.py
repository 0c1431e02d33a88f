"""`make chaos`: many runs of the same job under faults that seeds decide. None may come out differently.

    python tests/chaos/sweep.py                          100 runs in sync mode, 20 each in async and geo mode, 40 in
                                                         sync mode of scripts with several optimizers (loops), and 40
                                                         of a user's script that is killed from outside (outside);
                                                         100 in which machines burn, in sync and async mode (burn-sync),
                                                         40 in which copies are struck (copies-sync), and 60 of one
                                                         with shrinks, loads, moves and leaves (inside)
    python tests/chaos/sweep.py --only sync:17 --keep    one of them alone, with its logs

In sync mode the final tables are compared, bit for bit, with those of a run that nothing happened to. In every mode
each push that was acknowledged is counted against those that servers applied, and each sample must have counted once
in each epoch. Processes are forked with their imports behind them (`support.warm`), also those that are started again;
what kills them is real: fleetrun itself, or in `outside` kill -9 from here.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from harness import write_results  # noqa: E402

from chaos import burning, inside, outside  # noqa: E402
from chaos.runs import Outcome, run, undisturbed  # noqa: E402

NUM_RUNS = {
    "sync": 100,
    "async": 20,
    "geo": 20,
    "loops": 40,
    "outside": 40,
    "burn-sync": 50,
    "burn-async": 50,
    "copies-sync": 20,
    "copies-async": 20,
    "inside": 60,
}
DEATHS = ("kill server", "kill worker", "torn-write")


def main() -> int:
    args = _arguments()
    wanted = [args.only] if args.only else [(mode, seed) for mode, count in args.runs.items() for seed in range(count)]
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="fleet-chaos-"))
    console = Console(width=None if sys.stdout.isatty() else 140)
    outcomes = _run_all(wanted, folder, args.jobs, console, keeps=args.keep)
    took_s = time.monotonic() - began
    outcomes.sort(key=lambda one: (one.mode, one.seed))
    console.print(_table(outcomes, took_s))
    failed = [one for one in outcomes if one.problems]
    for one in failed:
        console.print(f"\n{one.name} failed: {'; '.join(one.problems)}", style="red", markup=False, highlight=False)
        console.print(f"  --chaos {one.chaos!r}", markup=False, highlight=False)
        console.print(f"  {_command(one)}", markup=False, highlight=False)
        console.print(f"  logs in {folder / one.name.replace(':', '-')}", markup=False, highlight=False)
    if args.json and not args.only:
        _write(outcomes, took_s, args.json)
    if not failed and not args.keep:
        folder.rmdir()
    elif args.keep:
        console.print(f"logs in {folder}", markup=False)
    return 1 if failed else 0


def _run_all(
    wanted: Sequence[tuple[str, int]], folder: Path, num_jobs: int, console: Console, *, keeps: bool
) -> list[Outcome]:
    starts = _starts({mode for mode, _ in wanted}, folder)
    outcomes: list[Outcome] = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[bad]} failed"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar, ThreadPoolExecutor(num_jobs) as pool:
        task = bar.add_task("runs", total=len(wanted), bad=0)
        futures = [
            pool.submit(starts[mode], seed=seed, folder=folder / f"{mode}-{seed}", keeps=keeps) for mode, seed in wanted
        ]
        for future in as_completed(futures):
            outcome = future.result()
            outcomes.append(outcome)
            if outcome.problems:
                bar.console.print(f"{outcome.name}: {'; '.join(outcome.problems)}", markup=False, highlight=False)
            bar.update(task, advance=1, bad=sum(bool(one.problems) for one in outcomes))
    return outcomes


def _starts(modes: Collection[str], folder: Path) -> dict[str, Callable[..., Outcome]]:
    """What runs a seed of each mode; each has been told what a run comes to that nothing happens to."""
    starts: dict[str, Callable[..., Outcome]] = {}
    if "outside" in modes:
        starts["outside"] = partial(outside.run, expected=outside.undisturbed(folder / "undisturbed"))
    if fires := {mode for mode in modes if mode.startswith(("burn-", "copies-"))}:
        model = burning.undisturbed(folder / "undisturbed") if fires & {"burn-sync", "copies-sync"} else ""
        for mode in fires:
            what, _, of = mode.partition("-")
            starts[mode] = partial(burning.run if what == "burn" else burning.run_struck, of, expected=model)
    if "inside" in modes:
        starts["inside"] = partial(inside.run, expected=inside.undisturbed(folder / "undisturbed"))
    if others := set(modes) - fires - {"outside", "inside"}:
        expected = undisturbed("sync", folder / "undisturbed")
        again = undisturbed("sync", folder / "undisturbed")
        assert expected == again, "two undisturbed runs differ: nothing can be compared with them"
        shutil.rmtree(folder / "undisturbed")
        starts |= {mode: partial(run, mode, expected=expected) for mode in others}
    return starts


def _command(one: Outcome) -> str:
    return f"PYTHONPATH=tests .venv/bin/python tests/chaos/sweep.py --only {one.name} --keep"


def _of(outcomes: Sequence[Outcome], mode: str) -> dict[str, Any]:
    """The figures of one mode."""
    mine = [one for one in outcomes if one.mode == mode]
    counts = sum((one.counts for one in mine), Counter())
    back: dict[str, list[float]] = {"server": [], "worker": []}
    step: dict[str, list[float]] = {"server": [], "worker": []}
    for recovery in (recovery for one in mine for recovery in one.recoveries):
        role = recovery["process"].partition(" ")[0]
        for name, into in (("back_s", back), ("step_s", step)):
            if recovery[name] is not None:
                into[role].append(recovery[name])
    return {
        "case": mode,
        "runs": len(mine),
        "good": sum(not one.problems for one in mine),
        "counts": dict(sorted(counts.items())),
        "median_run_s": statistics.median(one.seconds for one in mine),
        "recoveries_s": {
            role: {
                "num": len(back[role]),
                "median_back_s": statistics.median(back[role]) if back[role] else None,
                "most_back_s": max(back[role], default=None),
                "median_first_step_s": statistics.median(step[role]) if step[role] else None,
                "most_first_step_s": max(step[role], default=None),
            }
            for role in back
        },
    }


def _table(outcomes: Sequence[Outcome], took_s: float) -> Table:
    table = Table(title=f"chaos: {len(outcomes)} runs in {took_s / 60:.1f} minutes", title_justify="left")
    columns = (
        "mode",
        "good",
        "a run",
        *DEATHS,
        "drop",
        "repeat",
        "server back",
        "first step",
        "worker back",
        "first step",
    )
    for column in columns:
        table.add_column(column, justify="left" if column == "mode" else "right")
    for mode in dict.fromkeys(one.mode for one in outcomes):
        found = _of(outcomes, mode)
        times = [
            "" if value is None else f"{value:.2f} s"
            for role in ("server", "worker")
            for value in (
                found["recoveries_s"][role]["median_back_s"],
                found["recoveries_s"][role]["median_first_step_s"],
            )
        ]
        done = [str(found["counts"].get(what, 0)) for what in (*DEATHS, "drop", "repeat")]
        table.add_row(mode, f"{found['good']} of {found['runs']}", f"{found['median_run_s']:.1f} s", *done, *times)
    return table


def _write(outcomes: Sequence[Outcome], took_s: float, path: Path) -> None:
    modes = dict.fromkeys(one.mode for one in outcomes)
    bad = [{"run": one.name, "chaos": one.chaos, "problems": one.problems} for one in outcomes if one.problems]
    write_results(path, [_of(outcomes, mode) for mode in modes], took_s=took_s, failed=bad)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run a job under many faults.")
    parser.add_argument("--only", type=_one, metavar="MODE:SEED", help="one run alone")
    parser.add_argument("--runs", type=_counts, default=NUM_RUNS, metavar="MODE=N,..", help="[default: all]")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side [default: 2]")
    parser.add_argument("--keep", action="store_true", help="keep logs and files")
    parser.add_argument("--json", type=Path, help="write the figures there")
    return parser.parse_args()


def _one(text: str) -> tuple[str, int]:
    mode, _, seed = text.partition(":")
    return mode, int(seed)


def _counts(text: str) -> dict[str, int]:
    return {mode: int(count) for mode, _, count in (part.partition("=") for part in text.split(","))}


if __name__ == "__main__":
    sys.exit(main())
