"""A job that shrinks, writes rows by value, saves and loads between its steps, and whose workers leave, for chaos.

    fleetrun --server_num 2 --worker_num 2 tests/chaos/changes.py --mode async --save DIR

Rows go by themselves where a table reaches its ceiling, and lie on a disk where memory has no room for them. With
`--reshard` the number of servers changes instead, twice: ceilings are those of one server. All numbers are small
multiples of a power of two, so that sums do not depend on their order: in async mode, too, what is saved at the end
must be the same, bit for bit, however often processes die. Worker 1 leaves early.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

import fleet
from fleet.errors import FleetError

NUM_IDS, BATCH, STEPS, EVERY, LEAVES_AT = 400, 24, 60, 6, 40
SAVED = "between"
CEILING = 30_000
"""Bytes of rows on each server, of which the rest goes."""
NEW_IDS, WIDE, MEMORY = 300, 32, 1 << 20
"""How many ids are new in a step, and what of their rows a server has in memory."""
MOVES = {8: 3, 27: 2}
"""How many servers there are from which step on; the second time worker 0 waits until it is so."""


def ids_of(worker: int, step: int) -> torch.Tensor:
    """What a worker reads in a step."""
    draw = torch.Generator().manual_seed(1000 * worker + step)
    return torch.randint(0, NUM_IDS, (BATCH,), generator=draw)


def wait_for_disks() -> None:
    """Return when no folder of rows is away: saves and loads link to what is in them."""
    while list(Path("kept").glob("tables/*/away-*")):
        time.sleep(0.02)


def save(folder: str) -> None:
    """Save: what cannot be saved is an error, and nobody tries it again."""
    wait_for_disks()
    fleet.save_persistables(folder)


def change(number: int, seen: fleet.nn.Embedding, given: fleet.nn.Embedding) -> None:
    """The change that is due; nobody makes a step meanwhile."""
    kind = number % 5
    if kind == 0 and fleet.is_first_worker():
        fleet.shrink("seen", decay=0.5)
    elif kind == 1:
        keys = torch.arange(number, NUM_IDS, 37)
        fleet.load_rows(seen, keys, torch.full((len(keys), 2), float(number)))
        fleet.load_rows(given, torch.arange(3000), torch.full((3000, 2), float(number)))
    elif kind == 2 and fleet.is_first_worker():
        fleet.shrink("seen", score_below=0.06)
    elif kind == 3:
        save(SAVED)
    elif kind == 4:
        wait_for_disks()
        fleet.load_model(SAVED)


def move(step: int) -> None:
    """Change the number of servers; a move that is given up leaves them as they were."""
    try:
        fleet.reshard(servers=MOVES[step], wait=step > LEAVES_AT // 2 and fleet.is_first_worker())
    except FleetError as error:
        print(f"not moved: {error}", flush=True)


def embedding(table: str, width: int, **more: object) -> fleet.nn.Embedding:
    """A table whose sums are exact."""
    zeros = fleet.initializers.Constant(0.0)
    return fleet.nn.Embedding(width, table=table, rule=fleet.rules.SGD(lr=1.0), initializer=zeros, **more)  # type: ignore[arg-type]


def main(args: argparse.Namespace) -> None:
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = args.mode != "sync"
    fleet.init(strategy=strategy)
    if fleet.is_server():
        fleet.run_server()
        return
    torch.set_num_threads(1)
    ceiling = 0 if args.reshard else CEILING
    seen = embedding("seen", 2, entry=fleet.entries.ShowClickEntry("show", "click", threshold=0.0))
    few = embedding("few", 2, max_bytes=ceiling if args.mode == "sync" else 0)  # which go hangs on the order of pushes
    given = embedding("given", 2, max_bytes=ceiling)
    wide = embedding("wide", WIDE, memory=MEMORY)
    model = fleet.distributed_model(torch.nn.ModuleList([seen, few, given, wide]))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    fleet.init_worker()
    worker = fleet.worker_index()
    last = LEAVES_AT if worker else STEPS
    for step in range(fleet.steps_done(), last):
        is_due = step % EVERY == 0 and 0 < step < LEAVES_AT
        if is_due or step == LEAVES_AT:
            if args.mode != "sync":
                fleet.flush()
            fleet.barrier_worker()
        if is_due:
            change(step // EVERY - 1, seen, given)
            fleet.barrier_worker()
        if args.reshard and step in MOVES:
            move(step)
        ids = ids_of(worker, step)
        shown = seen(ids, show=torch.full((BATCH,), 4.0), click=torch.zeros(BATCH))
        new = torch.arange(NEW_IDS) + NEW_IDS * (2 * step + worker)
        (shown.sum() + few(ids + NUM_IDS * (step % 5)).sum() + wide(new).sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
    if worker:
        fleet.flush()
        fleet.barrier_worker()  # before this all that it has pushed is there
    else:
        fleet.flush()
        fleet.shrink("seen", decay=0.5)
        save(args.save)
        print("tables", [one["tables"] for one in fleet.server_stats()], flush=True)
    fleet.stop_worker()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Every change of several servers.")
    parser.add_argument("--mode", choices=["sync", "async"], default="sync")
    parser.add_argument("--save", required=True, metavar="DIR")
    parser.add_argument("--reshard", action="store_true")
    main(parser.parse_args())
