"""CTR-DNN through Fleet's parameter servers. Each worker leaves its figures as JSON in the folder --out.

    fleetrun --server_num 2 --worker_num 2 benchmarks/scripts/ctr_fleet.py --mode async --out FOLDER

Timed as the other systems are: 20 batches unnoticed, then --steps per worker between two barriers, the data made
beforehand and everything that was queued on the servers before the second barrier.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import fleet
from fleet.metrics import AUC
from fleet.ps.worker.parts import meters

sys.path.insert(0, str(Path(__file__).parents[2]))
from examples.ctr.data import DENSE, SLOTS, Batch, batches

SKIP, STEPS, HELD_OUT = 20, 120, 8
UNSEEN = 1_000_000  # the stream of batches that nobody trains on: no job has as many workers
WIDTH = 10
PARTS = ("next", "forward", "backward", "step")


class CTR(nn.Module):
    """26 rows of 10 and 13 numbers, through three layers of 400."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = fleet.nn.Embedding(
            WIDTH,
            table="ids",
            rule=fleet.rules.Adagrad(lr=0.05, eps=1e-6),
            initializer=fleet.initializers.Uniform(-1e-2, 1e-2),
        )
        sizes = [SLOTS * WIDTH + DENSE, 400, 400, 400]
        hidden = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
        self.layers = nn.Sequential(*hidden, nn.Linear(400, 2))

    def forward(self, ids: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(torch.cat([self.rows(ids).flatten(1), dense], dim=1))
        return logits


def strategy_of(mode: str, wire: dict[str, Any]) -> fleet.DistributedStrategy:
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode != "sync"
    strategy.a_sync_configs.half_async = mode == "half_async"
    strategy.a_sync_configs.k_steps = 100 if mode == "geo" else 0
    strategy.wire_configs = wire
    return strategy


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, data: Sequence[Batch], bf16: bool = False
) -> dict[str, float]:
    """One pass; the seconds spent in each of PARTS."""
    spent = dict.fromkeys(PARTS, 0.0)
    now = time.perf_counter
    end = now()
    for ids, dense, label in fleet.prefetch(data, model, keys=lambda batch: batch[0]):
        moments = [end, now()]
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = F.cross_entropy(model(ids, dense), label)
        moments.append(now())
        loss.backward()
        moments.append(now())
        optimizer.step()
        optimizer.zero_grad()
        end = now()
        for part, (begin, finish) in zip(PARTS, pairwise([*moments, end]), strict=True):
            spent[part] += finish - begin
    fleet.flush()  # a gradient that waits in a queue has not been trained on
    return spent


@torch.no_grad()
def evaluate(model: nn.Module, data: Sequence[Batch]) -> dict[str, float]:
    metric, losses = AUC(), []
    model.eval()
    for ids, dense, label in data:
        logits = model(ids, dense)
        losses.append(F.cross_entropy(logits, label).item())
        metric.update(logits.softmax(dim=1)[:, 1], label)
    model.train()
    return {"loss": sum(losses) / len(losses), "auc": metric.compute()}


def job_cpu_s() -> dict[str, float]:
    """CPU seconds so far of all workers and all servers: the launcher's children, told apart by their role."""
    launcher = psutil.Process().parent()
    assert launcher is not None
    total = {"TRAINER": 0.0, "PSERVER": 0.0}
    for process in launcher.children():
        role = process.environ().get("TRAINING_ROLE")
        if role in total:
            used = process.cpu_times()
            total[role] += used.user + used.system
    return {"workers": total["TRAINER"], "servers": total["PSERVER"]}


def through_interfaces() -> dict[str, float]:
    """Bytes that this host has sent and received so far; loopback does not count."""
    found = {"sent": 0.0, "received": 0.0}
    for interface in Path("/sys/class/net").iterdir():
        if interface.name != "lo":
            for name, counter in (("sent", "tx_bytes"), ("received", "rx_bytes")):
                found[name] += int((interface / "statistics" / counter).read_text())
    return found


def difference(after: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {name: value - before.get(name, 0.0) for name, value in after.items()}


def work(mode: str, steps: int, zipf: float, bf16: bool) -> dict[str, Any]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = fleet.distributed_model(CTR())
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=1e-4, fused=True))
    fleet.init_worker()
    data = list(batches(SKIP + steps, worker=fleet.worker_index(), zipf=zipf))
    unseen = list(batches(HELD_OUT, worker=UNSEEN, zipf=zipf))
    first = fleet.is_first_worker()

    before = evaluate(model, unseen) if first else {}
    train(model, optimizer, data[:SKIP], bf16)
    fleet.barrier_worker()  # what others still do for their first batches is not counted
    timed, cpu = meters.snapshot(), job_cpu_s() if first else {}
    fleet.barrier_worker()
    traffic = through_interfaces()
    begin = time.time()
    spent = train(model, optimizer, data[SKIP:], bf16)
    fleet.barrier_worker()
    end = time.time()
    result = {
        "mode": mode,
        "begin": begin,
        "end": end,
        "samples": sum(len(batch.label) for batch in data[SKIP:]),
        "batches": steps,
        "parts_s": spent,
        "bytes": difference(through_interfaces(), traffic),
        "meters_s": difference(meters.snapshot(), timed),
        "counts": meters.counts(),
    }
    if first:
        result |= {
            "cpu_s": difference(job_cpu_s(), cpu),
            "before": before,
            "after": evaluate(model, unseen),
            "rows": [
                {name: server[name] for name in ("pulled_rows", "pushed_rows")} for server in fleet.server_stats()
            ],
            "journals": [server.get("journal") for server in fleet.server_stats()],
            "steps": [server.get("step") for server in fleet.server_stats()],
        }
    fleet.barrier_worker()
    fleet.stop_worker()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=["sync", "async", "half_async", "geo"], required=True)
    parser.add_argument("--steps", type=int, default=STEPS, help="Batches of each worker that count.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--wire", type=json.loads, default={}, help="strategy.wire_configs, as JSON")
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16, by torch.autocast")
    parser.add_argument("--zipf", type=float, default=1.1)
    parser.add_argument("--publish", default="", help="strategy.publish")
    args = parser.parse_args()
    if args.steps < 1:
        parser.error(f"--steps {args.steps} leaves nothing to time; give 1 or more")

    strategy = strategy_of(args.mode, args.wire)
    strategy.publish = args.publish
    fleet.init(strategy=strategy)
    if fleet.is_server():
        fleet.run_server()
        return
    result = work(args.mode, args.steps, args.zipf, args.bf16)
    (args.out / f"worker{fleet.worker_index()}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
