"""A benchmark's model trained through Fleet, with one of the ways that workers come together.

fleetrun --nproc_per_node 2 --device cpu benchmarks/scripts/train_fleet.py --model transformer --out FOLDER
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from workload import WORKLOADS, train

import fleet

MODES = ("reduce_grad", "auto", "localsgd", "dgc", "fp16_allreduce")
"""`auto` is reduce_grad with whatever makes it fast on the device."""


def strategy_of(mode: str, k_steps: int) -> fleet.DistributedStrategy:
    strategy = fleet.DistributedStrategy()
    strategy.auto = mode == "auto"
    strategy.localsgd = mode == "localsgd"
    strategy.localsgd_configs.k_steps = k_steps
    strategy.dgc = mode == "dgc"
    strategy.fp16_allreduce = mode == "fp16_allreduce"
    return strategy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=WORKLOADS, required=True)
    parser.add_argument("--mode", choices=MODES, default="reduce_grad")
    parser.add_argument("--k-steps", type=int, default=1, help="Steps between two averages of LocalSGD.")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    fleet.init(is_collective=True, strategy=strategy_of(options.mode, options.k_steps))
    torch.manual_seed(0)
    workload = WORKLOADS[options.model]
    model = workload.model()
    optimizer = fleet.distributed_optimizer(workload.optimizer(model.parameters()))
    train(workload, fleet.distributed_model(model), optimizer, steps=options.steps, out=options.out)


if __name__ == "__main__":
    main()
