"""Small training jobs in this process: workers are `Fleet` objects in threads, servers are whatever serves a port."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import fleet
from fleet.api import Fleet
from fleet.net import Endpoint
from fleet.ps.server.service import Service
from fleet.ps.worker.optimizer import ServerOptimizer
from fleet.ps.worker.worker import Worker
from fleet.roles import Role, UserDefinedRoleMaker
from support.serving.serving import serving

T = TypeVar("T")

WIDTH = 4
NUM_IDS = 40
# A job that takes longer than this is stuck.
LIMIT_S = 120.0
OF_STRATEGY = (
    *("nonfinite_gradients", "dense", "wire_configs", "clip_norm", "clip_value"),
    *("wait_for_workers_s", "gradient_scale_configs"),
)


class Net(nn.Module):
    """A table and a layer: enough to see both kinds of parameters move."""

    def __init__(self, width: int = WIDTH, **table: Any) -> None:
        super().__init__()
        self.emb = fleet.nn.Embedding(width, table="ads", **{"rule": fleet.rules.Adagrad(lr=0.1), **table})
        self.out = nn.Linear(width, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Scores of [B, L] ids."""
        scores: torch.Tensor = self.out(self.emb(ids).mean(1)).squeeze(1)
        return scores


def first_model(seed: int = 0, **table: Any) -> Net:
    """A model whose dense parameters depend on the seed alone."""
    model = Net(**table)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.numel():
                parameter.uniform_(-0.5, 0.5, generator=generator)
    return model


def batch(step: int, worker: int = 0, size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids [size, 3] and targets of one step of one worker; always the same."""
    generator = torch.Generator().manual_seed(1000 * worker + step)
    ids = torch.randint(0, NUM_IDS, (size, 3), generator=generator)
    return ids, (ids.sum(1) % 2).float()


@dataclass
class Trainer:
    """One worker: everything a training script has."""

    fleet: Fleet
    model: nn.Module
    optimizer: ServerOptimizer
    index: int

    def train(self, *steps: int, ahead: bool = False) -> None:
        """Train on some batches: `train(5)` on the first five, `train(5, 10)` on the next; `ahead` prefetches."""
        batches: Iterable[tuple[torch.Tensor, torch.Tensor]] = (batch(step, self.index) for step in range(*steps))
        if ahead:
            batches = self.fleet.prefetch(batches, self.model, keys=lambda both: both[0])
        for ids, target in batches:
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(ids), target).backward()
            self.optimizer.step()

    def stats(self) -> list[dict[str, Any]]:
        return self.fleet.server_stats()

    @property
    def worker(self) -> Worker:
        """The worker behind model and optimizer."""
        return self.fleet._server_job().worker("a test")


def strategy(mode: str = "sync", k_steps: int = 2, **fields: Any) -> fleet.DistributedStrategy:
    """A mode, with k_steps if it is geo, and fields of the strategy or of its a_sync_configs."""
    made = fleet.DistributedStrategy()
    made.a_sync = mode != "sync"
    if mode == "half":
        made.a_sync_configs.half_async = True
    if mode == "geo":
        made.a_sync_configs.k_steps = k_steps
    for name, value in fields.items():
        setattr(made if name in OF_STRATEGY else made.a_sync_configs, name, value)
    return made


def trainer(
    endpoints: Sequence[Endpoint],
    index: int = 0,
    num_workers: int = 1,
    *,
    strategy: fleet.DistributedStrategy | None = None,
    meeting: Sequence[Endpoint] = (),
    model: nn.Module | None = None,
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
) -> Trainer:
    """A worker that has not joined yet. Without endpoints its server is in its process."""
    here = Fleet()
    if endpoints:
        servers = [str(endpoint) for endpoint in endpoints]
        meet = {"worker_endpoints": list(map(str, meeting))} if meeting else {}
        here.init(UserDefinedRoleMaker(index, Role.WORKER, num_workers, servers, **meet), strategy=strategy)
    else:
        here.init(strategy=strategy)
    atexit.unregister(here._end)  # a worker of a test ends with its test: pytest's end has no servers to take leave of
    if model is None:
        model = first_model(index)
    net = here.distributed_model(model)
    make = optimizer or (lambda model: torch.optim.Adam(model.parameters(), lr=0.01))
    optimizer_of_it = here.distributed_optimizer(make(net))
    assert isinstance(optimizer_of_it, ServerOptimizer)
    return Trainer(here, net, optimizer_of_it, index)


@contextmanager
def joined(endpoints: Sequence[Endpoint] = (), index: int = 0, num_workers: int = 1, **given: Any) -> Iterator[Trainer]:
    """A worker that has joined its servers; whatever happens to it, it is let go in the end."""
    one = trainer(endpoints, index, num_workers, **given)
    try:
        one.fleet.init_worker()
        yield one
    finally:
        one.fleet.shutdown()


@contextmanager
def served(
    what: int | Sequence[Service] = 1, model_dir: Path | None = None
) -> Iterator[tuple[list[Endpoint], list[Service]]]:
    """Real servers in this process, without a token: so many, or these."""
    with ExitStack() as stack:
        services = [Service(model_dir=model_dir) for _ in range(what)] if isinstance(what, int) else list(what)
        servers = [stack.enter_context(serving(service, token=None)) for service in services]
        # Closed first: calls that wait must end before their server can.
        for service in services:
            stack.callback(service.close)
        yield [server.endpoint for server in servers], services


def in_threads(*functions: Callable[[], T]) -> list[T]:
    """Run workers side by side; their results, or the first error that occurred."""
    futures = started(*functions)
    done, _ = wait(futures, LIMIT_S, FIRST_EXCEPTION)
    for future in done:
        if future.exception() is not None:
            future.result()
    return [future.result(LIMIT_S) for future in futures]


def started(*functions: Callable[[], T]) -> list[Future[T]]:
    """Start workers side by side."""

    def run(function: Callable[[], T], future: Future[T]) -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    futures: list[Future[T]] = [Future() for _ in functions]
    for function, future in zip(functions, futures, strict=True):
        threading.Thread(target=run, args=(function, future), daemon=True).start()
    return futures


Rows = dict[int, tuple[bytes, bytes]]


def rows_of(services: Sequence[Service], table: int = 0) -> Rows:
    """Value and state of every row, bit for bit, by key."""
    rows: Rows = {}
    for service in services:
        found = exported(service, table)
        for key, values, state in zip(found["keys"], found["values"], found["state"], strict=True):
            rows[int(key)] = (values.tobytes(), state.tobytes())
    return rows


def exported(service: Service, table: int = 0) -> dict[str, NDArray[Any]]:
    """A copy of everything in a table of a server in this process."""
    holdings = service.state.holdings
    assert holdings is not None
    return holdings.tables[table].export(0, holdings.tables[table].num_shards)


def dense_of(model: nn.Module) -> dict[str, bytes]:
    """The dense parameters, bit for bit."""
    return {
        name: np.ascontiguousarray(parameter.detach().numpy()).tobytes()
        for name, parameter in model.named_parameters()
        if parameter.numel()
    }
