"""One worker of an epoch that is divided beforehand, or taken from a queue. Work is sleeping: cores matter little.

fleetrun --server_num 2 --worker_num 4 benchmarks/scripts/queue_fleet.py --how queue --out FOLDER

A worker's device is busy for a fixed time for each row, and the last worker's for `--slower` times that. A thread takes
the next piece while the device works on the present one, as a reader of files does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

import fleet
from fleet.api import fleet as job
from fleet.data.order import block
from fleet.data.queue import PieceSource, piece_source


def fixed(num_pieces: int) -> Iterator[int]:
    """This worker's share, as large as the others'."""
    first, size = block(num_pieces, fleet.worker_index(), fleet.worker_num())
    yield from range(first, first + size)


def taken(source: PieceSource) -> Iterator[int]:
    """What this worker takes, one piece ahead."""
    with ThreadPoolExecutor(1) as reader:
        following = reader.submit(source.take, 0)
        while (piece := following.result()) is not None:
            following = reader.submit(source.take, 0)
            yield piece


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--how", choices=("fixed", "queue"), required=True)
    parser.add_argument("--rows", type=int, default=32_500)
    parser.add_argument("--piece", type=int, default=50, help="Rows of a piece.")
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
    num_pieces = -(-options.rows // options.piece)
    source = piece_source(job, "rows")
    source.begin(0, 0, num_pieces, [])
    row_s = options.row_s * (options.slower if fleet.worker_index() == fleet.worker_num() - 1 else 1.0)
    fleet.barrier_worker()
    begin = free_at = time.monotonic()
    done = []
    for piece in fixed(num_pieces) if options.how == "fixed" else taken(source):
        rows = min(options.piece, options.rows - piece * options.piece)
        free_at = max(free_at, time.monotonic()) + rows * row_s
        time.sleep(max(0.0, free_at - time.monotonic()))
        done.append(piece)
    told = {"begin": begin, "end": time.monotonic(), "pieces": done}
    (options.out / f"worker{fleet.worker_index()}.json").write_text(json.dumps(told))
    fleet.barrier_worker()
    fleet.stop_worker()


if __name__ == "__main__":
    main()
