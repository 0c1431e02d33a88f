"""CTR-DNN with Fleet: rows of 26 million ids on parameter servers, batches divided among workers.

    python examples/ctr/train.py                                              one process, with the tables in it
    fleetrun --server_num 2 --worker_num 2 examples/ctr/train.py              two servers and two workers
    fleetrun --server_num 2 --worker_num 2 examples/ctr/train.py --load DIR   go on from a checkpoint

The model and the loop are those of single.py, which is plain PyTorch; ten lines make the difference.
"""

import argparse
from pathlib import Path

import torch
from data import DENSE, SLOTS, batches
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from watch import Watch, held_out_auc

import fleet


class CTR(nn.Module):
    """Rows of 10 for 26 ids, and 13 numbers, through three layers of 400."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = fleet.nn.Embedding(10, rule=fleet.rules.Adagrad(lr=0.05))  # every id that was trained
        sizes = [SLOTS * 10 + DENSE, 400, 400, 400]
        hidden = [part for n in range(3) for part in (nn.Linear(sizes[n], sizes[n + 1]), nn.ReLU())]
        self.layers = nn.Sequential(*hidden, nn.Linear(400, 1))

    def forward(self, ids: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(torch.cat([self.rows(ids).flatten(1), dense], dim=1))
        return logits.squeeze(1)


def main(args: argparse.Namespace) -> None:
    fleet.init(strategy=strategy_of(args.mode))
    if fleet.is_server():
        return fleet.run_server()
    torch.manual_seed(0)
    model = fleet.distributed_model(CTR())
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=1e-3))
    fleet.init_worker()
    watch = start(model, args)
    data = batches(args.batches, seed=args.seed, worker=fleet.worker_index(), signal=3)
    for ids, dense, label in watch.over(data):
        logits = model(ids, dense)
        loss = binary_cross_entropy_with_logits(logits, label.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        watch.note(loss, logits, label)
    finish(model, watch, args)
    fleet.stop_worker()


def strategy_of(mode: str) -> fleet.DistributedStrategy:
    """The fields that choose a mode; docs/parameter_server.md says which mode is for what."""
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode != "sync"
    strategy.a_sync_configs.half_async = mode == "half_async"
    strategy.a_sync_configs.k_steps = 20 if mode == "geo" else 0
    return strategy


def start(model: CTR, args: argparse.Namespace) -> Watch:
    """Load a checkpoint if there is one to load, and measure on worker 0 where training begins."""
    if args.load:
        fleet.load_model(args.load)
        args.seed += fleet.server_stats()[0]["version"]  # other batches than those it was trained on
    auc = held_out_auc(model) if fleet.is_first_worker() else 0.0
    fleet.barrier_worker()
    rate_name = "own samples/s" if fleet.worker_num() > 1 else "samples/s"  # finish() has that of all workers
    return Watch(args.batches, auc, fleet.is_first_worker(), rate_name)


def finish(model: CTR, watch: Watch, args: argparse.Namespace) -> None:
    """Wait for all workers, save, and say what came of it."""
    fleet.flush()  # what is still on its way has not been trained on
    samples = fleet.util.all_reduce(watch.samples)
    seconds = fleet.util.all_reduce(watch.seconds, "max")
    if not fleet.is_first_worker():
        return
    tables = [table for server in fleet.server_stats() for table in server["tables"].values()]
    rows, size = (sum(table[name] for table in tables) for name in ("rows", "bytes"))
    where = f"on {fleet.server_num()} server(s)" if fleet.server_num() else "in this process"
    print(f"AUC on unseen data   {watch.auc_before:.4f} before, {held_out_auc(model):.4f} after")
    print(f"speed                {samples / seconds:,.0f} samples/s over {fleet.worker_num()} worker(s)")
    print(f"tables               {rows:,} rows, {size / 1e6:,.0f} MB {where}")
    print(f"checkpoint           {fleet.save_persistables(args.save)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="CTR-DNN with Fleet.")
    parser.add_argument("--batches", type=int, default=300, help="of 1000 samples, for each worker [default: 300]")
    parser.add_argument("--seed", type=int, default=2024, help="of the data [default: 2024]")
    parser.add_argument("--mode", choices=["sync", "async", "half_async", "geo"], default="sync")
    parser.add_argument("--save", type=Path, metavar="DIR", default="build/ctr-checkpoint", help="where to save")
    parser.add_argument("--load", type=Path, metavar="DIR", help="begin with a checkpoint, of any number of servers")
    main(parser.parse_args())
