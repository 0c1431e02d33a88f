"""One worker of an epoch of files, divided beforehand or taken from a queue. Work is sleeping: cores matter little.

fleetrun --server_num 2 --worker_num 4 benchmarks/scripts/queue_fleet.py --data FILE --queue --out FOLDER

A worker's device is busy for a fixed time for each row, and the last worker's for `--slower` times that. A line of the
file is the number of the row and some filling.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch

import fleet

BATCH_SIZE = 10
SCHEMA = fleet.data.Schema(categories=[fleet.data.Category("row", hash=False)], columns=["row", "filling"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--queue", action="store_true", help="Take pieces from a queue.")
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--row-s", type=float, default=0.001, help="Seconds for one row.")
    parser.add_argument("--slower", type=float, default=4.0, help="How much slower the last worker is.")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.init(strategy=strategy)
    model = fleet.distributed_model(fleet.nn.Embedding(1))
    fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    if fleet.is_server():
        sys.exit(fleet.run_server())
    fleet.init_worker()
    data = fleet.data.files(options.data, SCHEMA, BATCH_SIZE, queue=options.queue, shuffle=options.shuffle)
    row_s = options.row_s * (options.slower if fleet.worker_index() == fleet.worker_num() - 1 else 1.0)
    fleet.barrier_worker()
    begin = free_at = time.monotonic()
    done: list[int] = []
    for batch in data:
        free_at = max(free_at, time.monotonic()) + batch.size * row_s
        time.sleep(max(0.0, free_at - time.monotonic()))
        done += batch.ids[:, 0].tolist()
    told = {"begin": begin, "end": time.monotonic(), "rows": done}
    (options.out / f"worker{fleet.worker_index()}.json").write_text(json.dumps(told))
    fleet.barrier_worker()
    fleet.stop_worker()


if __name__ == "__main__":
    main()
