"""How unevenly servers are loaded by ids of a Zipf law: rows that each is asked for and sent, and keys before that.

    python benchmarks/skew.py --json benchmarks/results/skew.json

Nothing is trained: the ids of some batches go the way that a worker's do (distinct keys, by server), and what
each server would get is counted. Before distinct keys are found the busiest server has the hottest ids; what
travels is the distinct ones, so one id counts at most once a batch however hot it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from harness import write_results
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from fleet import _native

VOCABULARY = 1_000_000
Ids = NDArray[np.int64]


def batches(count: int, size: int, slots: int, exponent: float, seed: int = 7) -> Iterator[Ids]:
    """Ids of so many batches, of slots with a vocabulary each."""
    rng = np.random.default_rng(seed)
    shares = np.cumsum(1.0 / np.arange(1, VOCABULARY + 1) ** exponent)
    for _ in range(count):
        rank = np.searchsorted(shares / shares[-1], rng.random((slots, size)))
        yield (rank * 7919 % VOCABULARY + np.arange(slots)[:, None] * VOCABULARY).reshape(-1)


def load(num_servers: int, size: int, slots: int, exponent: float, *, count: int) -> dict[str, Any]:
    """For each server the ids that are its own, and the rows that it is asked for and pushed."""
    ids, pushed = (np.zeros(num_servers, np.int64) for _ in range(2))
    most_apart = 0.0
    for batch in batches(count, size, slots, exponent):
        ids += np.bincount(_native.server_of(batch, num_servers), minlength=num_servers)
        _, _, offsets, _ = _native.route(batch, num_servers, False)
        pushed += np.diff(offsets)
        most_apart = max(most_apart, apart(np.diff(offsets)))
    return {
        "case": f"Zipf {exponent}, {slots} slots, batch {size}, {num_servers} servers",
        "ids": ids.tolist(),
        "pushed_rows": pushed.tolist(),
        "ids_apart": apart(ids),
        "pushed_apart": apart(pushed),
        "pushed_apart_worst_batch": most_apart,
        "distinct": float(pushed.sum() / ids.sum()),
    }


def apart(each: NDArray[np.int64]) -> float:
    """How much more the busiest server has than the idlest."""
    return float(each.max() / max(1, each.min()))


@click.command()
@click.option("--batches", "count", default=50, show_default=True)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(count: int, path: Path | None) -> None:
    cases = [
        load(num_servers, size, slots, exponent, count=count)
        for exponent in (1.1, 1.2, 1.5)
        for slots, size in ((26, 1000), (26, 100), (1, 10_000))
        for num_servers in (2, 8, 32)
    ]
    table = Table(title="The busiest server beside the idlest")
    for header in ("case", "ids", "pushed", "worst batch", "distinct"):
        table.add_column(header, justify="left" if header == "case" else "right")
    names = ("ids_apart", "pushed_apart", "pushed_apart_worst_batch", "distinct")
    for case in cases:
        table.add_row(case["case"], *(f"{case[name]:.2f}" for name in names))
    Console().print(table)
    if path is not None:
        write_results(path, cases, batches=count)


if __name__ == "__main__":
    main()
