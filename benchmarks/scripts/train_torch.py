"""A benchmark's model trained without Fleet: plain, by hand-written DDP, by Accelerate or by Lightning Fabric.

torchrun --standalone --nproc_per_node 2 benchmarks/scripts/train_torch.py ddp --model transformer --out FOLDER
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from workload import WORKLOADS, train

Wrapped = tuple[Any, Any, Callable[[Tensor], object]]
"""Model, optimizer, and what to call for a backward pass."""


def plain(model: nn.Module, optimizer: torch.optim.Optimizer) -> Wrapped:
    return model, optimizer, Tensor.backward


def ddp(model: nn.Module, optimizer: torch.optim.Optimizer) -> Wrapped:
    dist.init_process_group("gloo")
    return nn.parallel.DistributedDataParallel(model), optimizer, Tensor.backward


def accelerate(model: nn.Module, optimizer: torch.optim.Optimizer) -> Wrapped:
    from accelerate import Accelerator  # type: ignore[import-not-found]

    accelerator = Accelerator(cpu=True)
    model, optimizer = accelerator.prepare(model, optimizer)
    return model, optimizer, accelerator.backward


def fabric(model: nn.Module, optimizer: torch.optim.Optimizer) -> Wrapped:
    from lightning.fabric import Fabric  # type: ignore[import-not-found]

    system = Fabric(accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), strategy="ddp")
    system.launch()
    model, optimizer = system.setup(model, optimizer)
    return model, optimizer, system.backward


SYSTEMS = {system.__name__: system for system in (plain, ddp, accelerate, fabric)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("--model", choices=WORKLOADS, required=True)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    torch.manual_seed(0)
    workload = WORKLOADS[options.model]
    model = workload.model()
    model, optimizer, backward = SYSTEMS[options.system](model, workload.optimizer(model.parameters()))
    torch.set_num_threads(1)  # some of them set it themselves
    train(workload, model, optimizer, steps=options.steps, out=options.out, backward=backward)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
