"""Fleet in one process: a thread for each worker, a `Service` for each server, nothing between them but calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

import fleet
from fleet.net import LOOPBACK, Endpoint
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.wire.transport import LocalTransport
from fleet.ps.worker.optimizer import ServerOptimizer
from fleet.ps.worker.worker import Worker
from fleet.roles import Identity, Role
from fleet.runtime.modules.start_worker import start_worker
from fleet.runtime.saved import saving
from support.parity.around import CTR, TORCH_SEED, Batch, keys_of, loss_of

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet.ps.wire.messages import Tensors
    from fleet.ps.wire.transport import Answer

LIMIT_S = 120.0
Order = Callable[[int, int], Sequence[int]]
"""(server, step) -> the workers in the order in which their pushes arrive."""


@dataclass(frozen=True)
class Recipe:
    """How to train, the same for every worker."""

    optimizer: Callable[[nn.Module], Optimizer]
    model: Callable[[], nn.Module] = CTR
    loss: Callable[[nn.Module, Any], torch.Tensor] = loss_of
    strategy: fleet.DistributedStrategy = field(default_factory=fleet.DistributedStrategy)
    schedule: Callable[[Optimizer], LRScheduler] | None = None
    accumulate: int = 1
    keys: Callable[[Any], Any] | None = None
    """Given: batches are prefetched."""
    dispatcher: Any = None

    def prefetched(self) -> Recipe:
        """The same with prefetching."""
        return replace(self, keys=keys_of)


@dataclass
class Member:
    """One worker, joined, and what it trains."""

    index: int
    worker: Worker
    model: nn.Module
    optimizer: ServerOptimizer
    recipe: Recipe

    def train(self, data: Sequence[Any]) -> list[float]:
        """One pass; the loss of every batch."""
        recipe, losses = self.recipe, []
        schedule = recipe.schedule and recipe.schedule(self.optimizer)
        fed = data if recipe.keys is None else fleet.prefetch(data, self.model, keys=recipe.keys)
        for number, batch in enumerate(fed, start=1):
            losses.append(self.learn(batch))
            if number % recipe.accumulate == 0:
                self.step()
                if schedule:
                    schedule.step()
        return losses

    def learn(self, batch: Any) -> float:
        """Forward and backward; the loss."""
        loss = self.recipe.loss(self.model, batch)
        loss.backward()
        return loss.item()

    def step(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()


class Turns:
    """Lets the pushes of each step through to each server in a given order, and in no other."""

    def __init__(self, num_workers: int, order: Order) -> None:
        self._num_workers, self._order = num_workers, order
        self._arrived: dict[int, list[int]] = {}
        self._changed = threading.Condition()

    def take(self, server: int, worker: int, send: Callable[[], object]) -> None:
        with self._changed:
            arrived = self._arrived.setdefault(server, [])

            def is_my_turn() -> bool:
                step, position = divmod(len(arrived), self._num_workers)
                return self._order(server, step)[position] == worker

            assert self._changed.wait_for(is_my_turn, LIMIT_S), f"worker {worker} never had its turn"
            send()
            arrived.append(worker)
            self._changed.notify_all()


class OrderedTransport(LocalTransport):
    """Pushes wait for their turn.

    A push is answered when its step is complete, which would keep the turn. So it is sent twice: once in its turn, not
    to be waited for, and again for the answer; the server recognises the second.
    """

    def __init__(self, service: Service, turns: Turns, server: int, worker: int) -> None:
        super().__init__(service)
        self._turns, self._server, self._worker = turns, server, worker

    def call(self, method: str, header: Message, tensors: Tensors, timeout_s: float) -> Answer:
        if isinstance(header, ps_pb2.PushRequest.Header):
            first = ps_pb2.PushRequest.Header()
            first.CopyFrom(header)
            first.timeout_ms = 0
            send = super().call
            self._turns.take(self._server, self._worker, lambda: send(method, first, tensors, timeout_s).result())
        return super().call(method, header, tensors, timeout_s)


class Mean:
    """The all-reduce of threads: everybody's tensor becomes the mean, added in the order of the workers."""

    def __init__(self, num_workers: int) -> None:
        self._values: list[torch.Tensor | None] = [None] * num_workers
        self._mean = torch.empty(0)
        self._barrier = threading.Barrier(num_workers, self._add, LIMIT_S)

    def of(self, worker: int) -> Callable[[torch.Tensor], None]:
        def average(values: torch.Tensor) -> None:
            self._values[worker] = values
            self._barrier.wait()
            values.copy_(self._mean)
            self._barrier.wait()

        return average

    def _add(self) -> None:
        if self._values[0] is not None:
            parts = [part for part in self._values if part is not None]
            self._mean = torch.stack(parts).sum(0) / len(parts)
            self._values = [None] * len(self._values)


def run(
    num_workers: int,
    num_servers: int,
    recipe: Recipe,
    work: Callable[[Member], Any],
    *,
    order: Order | None = None,
    save: Path | None = None,
) -> list[Any]:
    """Run a job; what `work` gave each worker. When all have done theirs, worker 0 saves everything to `save`."""
    services = [Service() for _ in range(num_servers)]
    turns = None if order is None else Turns(num_workers, order)
    mean = Mean(num_workers)
    models = []
    for index in range(num_workers):  # here and not in the threads, which share torch's generator
        torch.manual_seed(TORCH_SEED + index)  # worker 0's parameters are everybody's
        models.append(recipe.model())
    done = threading.Barrier(num_workers)
    given: list[Any] = [None] * num_workers
    failed: list[BaseException] = []

    def live(index: int) -> None:
        member = _join(index, num_workers, services, recipe, models[index], turns, mean)
        try:
            given[index] = work(member)
            if save is not None:
                done.wait(LIMIT_S)
                if index == 0:
                    saving.save(member.worker, save)
                done.wait(LIMIT_S)
        finally:
            member.worker.stop()

    def guarded(index: int) -> None:
        try:
            live(index)
        except BaseException as error:
            failed.append(error)
            done.abort()
            for service in services:
                service.close()

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(num_workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    assert all(service.finished.is_set() for service in services)
    return given


def train(
    num_workers: int,
    num_servers: int,
    recipe: Recipe,
    data: Sequence[Batch],
    *,
    order: Order | None = None,
    save: Path | None = None,
) -> list[float]:
    """Share batches among workers and train; the loss of every batch, which is the mean of the workers'."""

    def work(member: Member) -> list[float]:
        return member.train([batch.share(member.index, num_workers) for batch in data])

    curves = run(num_workers, num_servers, recipe, work, order=order, save=save)
    return [sum(losses) / num_workers for losses in zip(*curves, strict=True)]


def _join(
    index: int,
    num_workers: int,
    services: Sequence[Service],
    recipe: Recipe,
    model: nn.Module,
    turns: Turns | None,
    mean: Mean,
) -> Member:
    endpoints = tuple(Endpoint(LOOPBACK, 6000 + number) for number in range(len(services)))  # names; nobody listens
    who = Identity(Role.WORKER, index, num_workers, "a test", server_endpoints=endpoints)
    optimizer = ServerOptimizer(recipe.optimizer(model))

    def connect() -> list[LocalTransport]:
        if turns is None:
            return [LocalTransport(service) for service in services]
        return [OrderedTransport(service, turns, number, index) for number, service in enumerate(services)]

    worker = start_worker(
        model,
        [optimizer],
        who,
        recipe.strategy,
        connect=connect,
        dispatcher=recipe.dispatcher,
        average=mean.of(index),
    )
    return Member(index, worker, model, optimizer, recipe)
