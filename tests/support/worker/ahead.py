"""A model with several dense layers, and servers reached by TCP, for gradients that leave while backward runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.net import Endpoint
from fleet.ps.server.service import Service
from fleet.ps.worker.parts import meters
from fleet.ps.worker.sending import dense_ahead
from support.parity.training import Trainer, batch, dense_of, in_threads, joined, rows_of, strategy
from support.plane import plane
from support.serving.serving import TOKEN

NUM_STEPS = 6
WIDTH = 8
BUCKET_BYTES = 1024

Habit = Callable[[Trainer, int], None]
"""What a user does in one step, from zero_grad to optimizer.step."""


class Deep(nn.Module):
    """A table and four layers, of which one is not used in every step."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = fleet.nn.Embedding(WIDTH, table="ads", rule=fleet.rules.Adagrad(lr=0.1))
        self.first = nn.Linear(WIDTH, 64)
        self.second = nn.Linear(64, 48)
        self.seldom = nn.Linear(48, 48)
        self.last = nn.Linear(48, 1)

    def forward(self, ids: torch.Tensor, is_seldom: bool = False) -> torch.Tensor:
        hidden = torch.tanh(self.second(torch.tanh(self.first(self.emb(ids).mean(1)))))
        if is_seldom:
            hidden = hidden + self.seldom(hidden)
        scores: torch.Tensor = self.last(hidden).squeeze(1)
        return scores


def deep(seed: int = 0) -> Deep:
    """One whose dense parameters depend on the seed alone."""
    model = Deep()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.numel():
                parameter.uniform_(-0.3, 0.3, generator=generator)
    return model


def backward(one: Trainer, step: int, *, is_seldom: bool = True) -> None:
    ids, target = batch(step, one.index)
    nn.functional.mse_loss(one.model(ids, is_seldom), target).backward()


@dataclass
class Servers:
    """Some in this process, with their data planes."""

    services: list[Service]
    served: list[plane.Served]

    @property
    def endpoints(self) -> list[Endpoint]:
        return [one.grpc.endpoint for one in self.served if one.grpc is not None]

    def ahead_bytes(self) -> int:
        """What has come ahead and waits for its push."""
        return sum(one.plane._server.counts()["ahead_bytes"] for one in self.served if one.plane is not None)


@contextmanager
def serving(num_servers: int = 2) -> Iterator[Servers]:
    with ExitStack() as stack:
        services = [Service() for _ in range(num_servers)]
        yield Servers(services, [stack.enter_context(plane.served("TCP", service)) for service in services])


def use_tcp(monkeypatch: pytest.MonkeyPatch, bucket_bytes: int = BUCKET_BYTES) -> None:
    """From now on workers of this process reach servers by TCP, and small buckets are worth a message."""
    monkeypatch.setenv("FLEET_JOB_TOKEN", TOKEN)
    monkeypatch.setenv("FLEET_LOCAL_TRANSPORT", "TCP")
    monkeypatch.setattr(dense_ahead, "BUCKET_BYTES", bucket_bytes)
    monkeypatch.setattr(dense_ahead, "LEAST_BYTES", 0)


@dataclass
class Trained:
    """What is left of a job: the bits of everything, and how many bytes went ahead."""

    dense: list[dict[str, bytes]]
    rows: Any
    sent: int
    joined: int
    rests: int


def train(
    habit: Habit,
    *,
    is_ahead: bool,
    num_workers: int = 2,
    num_steps: int = NUM_STEPS,
    servers: Servers | None = None,
    endpoints: Sequence[Endpoint] = (),
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
) -> Trained:
    """Train with some workers in threads."""

    def work(index: int, endpoints: Sequence[Endpoint]) -> dict[str, bytes]:
        given = strategy("sync", wire_configs={"dense_ahead": is_ahead})
        with joined(
            endpoints, index, num_workers, strategy=given, model=deep(index), optimizer=optimizer or momentum
        ) as one:
            for step in range(num_steps):
                habit(one, step)
            one.fleet.stop_worker()
            return dense_of(one.model)

    with ExitStack() as stack:
        servers = servers or stack.enter_context(serving())
        torch.manual_seed(0)
        before = meters.counts()
        dense = in_threads(
            *(partial(work, index, endpoints or servers.endpoints) for index in range(num_workers)),
        )
        counted = {name: value - before.get(name, 0) for name, value in meters.counts().items()}
        rows = rows_of(servers.services)
    sent, used, rests = (counted.get(f"ahead.{name}", 0) for name in ("sent_bytes", "joined_bytes", "rests"))
    return Trained(dense, rows, sent, used, rests)


def momentum(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def dense_bytes(model: nn.Module) -> int:
    return 4 * sum(parameter.numel() for parameter in model.parameters())
