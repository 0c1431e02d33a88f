"""Small trainings that workers of a collective job do together, and the same by one process with the whole batch.

A case is a function that every worker calls; what it returns is JSON. `collective_job` runs any number of them in one
job, since starting processes costs far more than a small training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam, Optimizer

from fleet import DistributedStrategy, Fleet
from fleet.collective.model import DistributedModel

NUM_STEPS = 50
BATCH = 32
"""Of all workers together."""

OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda parameters: SGD(parameters, lr=0.1),
    "momentum": lambda parameters: SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "adam": lambda parameters: Adam(parameters, lr=0.01),
}


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = nn.Linear(20, 33), nn.ReLU(), nn.Linear(33, 17), nn.Tanh(), nn.Linear(17, 4)
    return nn.Sequential(*layers)


def batches(num_steps: int, seed: int = 5) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The batches of all workers together."""
    generator = torch.Generator().manual_seed(seed)
    teacher = torch.randn(20, 4, generator=generator)
    for _ in range(num_steps):
        x = torch.randn(BATCH, 20, generator=generator)
        yield x, (x @ teacher).argmax(dim=1)


def strategy_of(**fields: Any) -> DistributedStrategy:
    strategy = DistributedStrategy()
    for name, value in fields.items():
        setattr(strategy, name, value)
    return strategy


def start(strategy: DistributedStrategy | None = None) -> Fleet:
    """A Fleet of its own in the process group that is there already."""
    here = Fleet()
    here.init(is_collective=True, strategy=strategy)
    return here


def pair(
    strategy: DistributedStrategy, optimizer: str = "sgd", module: nn.Module | None = None, model_first: bool = True
) -> tuple[Fleet, DistributedModel, Any]:
    """A model and an optimizer, made distributed in one order or the other."""
    here = start(strategy)
    module = network() if module is None else module
    inner = OPTIMIZERS[optimizer](module.parameters())
    if model_first:
        model = here.distributed_model(module)
        made = here.distributed_optimizer(inner)
    else:
        made = here.distributed_optimizer(inner)
        model = here.distributed_model(module)
    assert isinstance(model, DistributedModel)
    return here, model, made


def own(here: Fleet, whole: torch.Tensor) -> torch.Tensor:
    """This worker's part of a batch."""
    return whole.chunk(here.worker_num())[here.worker_index()].to(here.device)


def means(values: list[torch.Tensor]) -> list[float]:
    """Over the workers, by one collective for all."""
    together = torch.stack([value.detach().cpu() for value in values])
    if dist.is_initialized() and dist.get_world_size() > 1:
        dist.all_reduce(together)
        together /= dist.get_world_size()
    return together.tolist()


def train(
    strategy: DistributedStrategy,
    optimizer: str = "sgd",
    *,
    num_steps: int = NUM_STEPS,
    module: nn.Module | None = None,
    asks: bool = False,
    model_first: bool = True,
) -> list[float]:
    """The mean loss of each batch. `asks`: also call the two methods that need not be called."""
    here, model, made = pair(strategy, optimizer, module, model_first)
    losses: list[torch.Tensor] = []
    for x, y in batches(num_steps):
        loss = cross_entropy(model(own(here, x)), own(here, y))
        losses.append(loss)
        if asks:
            loss = model.scale_loss(loss)
        loss.backward()
        if asks:
            model.apply_collective_grads()
        made.step()
        made.zero_grad()
    return means(losses)


def alone(
    optimizer: str = "sgd",
    *,
    num_steps: int = NUM_STEPS,
    merged: int = 1,
    module: nn.Module | None = None,
    clip: float | None = None,
    make: Callable[[nn.Module], Optimizer] | None = None,
) -> list[float]:
    """The same by plain torch in one process: the loss of each whole batch, `merged` of them to an update."""
    module = network() if module is None else module
    inner = make(module) if make else OPTIMIZERS[optimizer](module.parameters())
    losses = []
    for number, (x, y) in enumerate(batches(num_steps), 1):
        loss = cross_entropy(module(x), y)
        losses.append(float(loss.detach()))
        (loss / merged).backward()
        if number % merged == 0:
            if clip is not None:
                nn.utils.clip_grad_norm_(module.parameters(), clip)
            inner.step()
            inner.zero_grad()
    return losses


def worst(one: list[float], other: list[float]) -> float:
    """The largest relative difference."""
    return max(abs(a - b) / abs(b) for a, b in zip(one, other, strict=True))


def gap(model: Any) -> float:
    """How far the workers' parameters are apart."""
    flat = torch.cat([one.detach().flatten() for one in model.parameters()])
    largest, least = flat.clone(), flat.clone()
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    return float((largest - least).max())


def steps(here: Fleet, model: Any, optimizer: Any, num_steps: int, gaps: bool = False) -> list[float]:
    """Train; the losses, or how far the workers are apart after each step."""
    losses, found = [], []
    for x, y in batches(num_steps):
        loss = cross_entropy(model(own(here, x)), own(here, y))
        model.scale_loss(loss).backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)
        if gaps:
            found.append(gap(model))
    return found if gaps else means(losses)


def with_norm() -> nn.Sequential:
    """A network with batch norm."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
