"""A job that shrinks, writes rows by value, saves and loads between its steps, and whose workers leave, for chaos.

    fleetrun --server_num 2 --worker_num 2 tests/chaos/changes.py --mode async --save DIR

All numbers are small multiples of a power of two, so that sums do not depend on their order: in async mode, too, what
is saved at the end must be the same, bit for bit, however often processes die. Worker 1 leaves early.
"""

from __future__ import annotations

import argparse

import torch

import fleet

NUM_IDS, BATCH, STEPS, EVERY, LEAVES_AT = 400, 24, 60, 6, 40
SAVED = "between"


def ids_of(worker: int, step: int) -> torch.Tensor:
    """What a worker reads in a step."""
    draw = torch.Generator().manual_seed(1000 * worker + step)
    return torch.randint(0, NUM_IDS, (BATCH,), generator=draw)


def change(number: int, seen: fleet.nn.Embedding) -> None:
    """The change that is due; nobody makes a step meanwhile."""
    kind = number % 5
    if kind == 0 and fleet.is_first_worker():
        fleet.shrink("seen", decay=0.5)
    elif kind == 1:
        keys = torch.arange(number, NUM_IDS, 37)
        fleet.load_rows(seen, keys, torch.full((len(keys), 2), float(number)))
    elif kind == 2 and fleet.is_first_worker():
        fleet.shrink("seen", score_below=0.06)
    elif kind == 3:
        fleet.save_persistables(SAVED)
    elif kind == 4:
        fleet.load_model(SAVED)


def main(args: argparse.Namespace) -> None:
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = args.mode != "sync"
    fleet.init(strategy=strategy)
    if fleet.is_server():
        fleet.run_server()
        return
    torch.set_num_threads(1)
    zeros = fleet.initializers.Constant(0.0)
    entry = fleet.entries.ShowClickEntry("show", "click", threshold=0.0)
    seen = fleet.nn.Embedding(2, table="seen", rule=fleet.rules.SGD(lr=1.0), initializer=zeros, entry=entry)
    ceiling = 6_000 if args.mode == "sync" else 0  # which rows go depends on the order of pushes
    few = fleet.nn.Embedding(2, table="few", rule=fleet.rules.SGD(lr=1.0), initializer=zeros, max_bytes=ceiling)
    model = fleet.distributed_model(torch.nn.ModuleList([seen, few]))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    fleet.init_worker()
    worker = fleet.worker_index()
    last = LEAVES_AT if worker else STEPS
    for step in range(fleet.steps_done(), last):
        if step == LEAVES_AT:
            fleet.flush()
            fleet.barrier_worker()
        if step and step % EVERY == 0 and step < LEAVES_AT:
            fleet.flush()
            fleet.barrier_worker()
            change(step // EVERY - 1, seen)
            fleet.barrier_worker()
        ids = ids_of(worker, step)
        shown = seen(ids, show=torch.full((BATCH,), 4.0), click=torch.zeros(BATCH))
        (shown.sum() + few(ids).sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
    fleet.flush()
    if worker:
        fleet.barrier_worker()  # before this all that it has pushed is there
    else:
        fleet.shrink("seen", decay=0.5)
        fleet.save_persistables(args.save)
    fleet.stop_worker()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Every change of several servers.")
    parser.add_argument("--mode", choices=["sync", "async"], default="sync")
    parser.add_argument("--save", required=True, metavar="DIR")
    main(parser.parse_args())
