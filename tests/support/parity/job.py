"""The model of `support.parity.around` as a user's script: fleetrun starts it as workers and servers.

Worker 0 leaves a checkpoint in the folder --out; each worker leaves its losses there, as JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import fleet


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rule", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--combine", default="never")
    arguments = parser.parse_args()

    strategy = fleet.DistributedStrategy()
    strategy.a_sync = False
    strategy.combine_gradients = arguments.combine
    fleet.init(strategy=strategy)
    if fleet.is_server():
        fleet.run_server()
    else:
        train(arguments.rule, arguments.steps, arguments.out)


def train(rule: str, num_steps: int, out: Path) -> None:
    import torch  # not in servers, which start in a tenth of the time without it

    from support.parity.around import CTR, RULES, TORCH_SEED, batches, keys_of, loss_of

    index, num_workers = fleet.worker_index(), fleet.worker_num()
    torch.set_num_threads(1)
    torch.manual_seed(TORCH_SEED + index)
    model = fleet.distributed_model(CTR())
    optimizer = fleet.distributed_optimizer(RULES[rule](model))
    fleet.init_worker()
    data = [batch.share(index, num_workers) for batch in batches(num_steps)]
    losses = []
    for batch in fleet.prefetch(data, model, keys=keys_of):
        loss = loss_of(model, batch)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if fleet.is_first_worker():
        fleet.save_persistables(out / "saved")
    fleet.stop_worker()
    (out / f"worker{index}.json").write_text(json.dumps(losses))


if __name__ == "__main__":
    main()
