"""A worker whose model is on a GPU, with its tables in this process: the same training as on the CPU, and few waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import nn

import fleet
from fleet.api import Fleet
from fleet.errors import UsageError
from fleet.nn import EmbeddingCollection, Slot

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")]

BATCH, STEPS = 64, 12


class Net(nn.Module):
    """Rows of one table, bags of another, some numbers, two layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        rule = fleet.rules.Adagrad(lr=0.1)
        slots = [Slot("user", 4, rule=rule), Slot("item", 4, rule=rule), Slot("seen", 4, "item", "mean", rule=rule)]
        self.rows = EmbeddingCollection(slots)
        self.layers = nn.Sequential(nn.Linear(14, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(
        self, inputs: dict[str, torch.Tensor | tuple[torch.Tensor, torch.Tensor]], x: torch.Tensor
    ) -> torch.Tensor:
        found = self.rows(inputs)
        scores: torch.Tensor = self.layers(torch.cat([found["user"], found["item"], found["seen"], x], 1)).squeeze(1)
        return scores


@contextmanager
def job(model: nn.Module, mode: str = "sync") -> Iterator[torch.optim.Optimizer]:
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode != "sync"
    strategy.a_sync_configs.half_async = mode == "half_async"
    strategy.a_sync_configs.k_steps = 3 if mode == "geo" else 0
    own = Fleet()
    own.init(strategy=strategy)
    own.distributed_model(model)
    optimizer = own.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.01))
    try:
        own.init_worker()
        yield optimizer
        own.stop_worker()
    finally:
        own.shutdown()


def batch(step: int) -> tuple[dict[str, torch.Tensor | tuple[torch.Tensor, torch.Tensor]], torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    user, item, seen = (torch.randint(0, 50, (size,), generator=generator) for size in (BATCH, BATCH, 3 * BATCH))
    offsets = torch.arange(0, 3 * BATCH, 3)
    x = torch.randn(BATCH, 2, generator=generator)
    return {"user": user, "item": item, "seen": (seen, offsets)}, x, (user < 25).float()


def step_of(model: nn.Module, optimizer: torch.optim.Optimizer, step: int, ids_on: str) -> float:
    device = next(model.parameters()).device
    inputs, x, y = batch(step)
    placed = {
        name: tuple(part.to(ids_on) for part in one) if isinstance(one, tuple) else one.to(ids_on)
        for name, one in inputs.items()
    }
    loss = nn.functional.binary_cross_entropy_with_logits(model(placed, x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def train(device: str, mode: str, ids_on: str) -> tuple[list[float], list[torch.Tensor]]:
    model = Net().to(device)
    with job(model, mode) as optimizer:
        losses = [step_of(model, optimizer, step, ids_on) for step in range(STEPS)]
    return losses, [parameter.detach().cpu() for parameter in model.parameters()]


@pytest.mark.parametrize("mode", ["sync", "half_async", "geo"])
@pytest.mark.parametrize("ids_on", ["cpu", "cuda"])
def test_as_on_the_cpu(mode: str, ids_on: str) -> None:
    expected, parameters = train("cpu", mode, "cpu")
    losses, found = train("cuda", mode, ids_on)
    assert losses == pytest.approx(expected, rel=1e-4)
    torch.testing.assert_close(found, parameters, rtol=1e-4, atol=1e-4)


def test_async_learns() -> None:
    losses, _ = train("cuda", "async", "cuda")
    assert losses[-1] < losses[0]


def test_a_model_on_the_cpu_takes_ids_from_the_gpu() -> None:
    assert train("cpu", "sync", "cuda")[0] == pytest.approx(train("cpu", "sync", "cpu")[0], rel=1e-6)


def test_a_step_waits_for_the_gpu_only_for_its_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch names every other wait an error, if it is told to."""
    model = Net().cuda()
    with job(model) as optimizer:
        for step in range(2):
            step_of(model, optimizer, step, "cpu")
        inputs, x, y = batch(3)
        x, y = x.cuda(), y.cuda()
        worker = model.rows.worker
        worker.prefetch(model.rows.requests(inputs))
        for one in worker._lookups._ahead:
            one.get()  # keys are found on the GPU, beside the model, and somebody there waits for them
        waits = []
        synchronize = torch.cuda.Stream.synchronize

        def noted(stream: torch.cuda.Stream) -> None:
            waits.append(stream)
            torch.cuda.set_sync_debug_mode("default")
            synchronize(stream)
            torch.cuda.set_sync_debug_mode("error")

        monkeypatch.setattr(torch.cuda.Stream, "synchronize", noted)
        torch.cuda.set_sync_debug_mode("error")
        try:
            nn.functional.binary_cross_entropy_with_logits(model(inputs, x), y).backward()
            assert not waits
            optimizer.step()
            optimizer.zero_grad()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert len(waits) == 2  # for dense gradients, and at no cost then for those of rows


def test_parameters_on_two_devices_are_refused() -> None:
    model = Net()
    model.layers[2].cuda()
    with pytest.raises(
        UsageError, match=r"parameter 'layers\.2\.weight' lies on cuda:0, but 'layers\.0\.weight' on cpu"
    ):
        with job(model):
            pass


def test_a_model_moved_after_init_worker_is_refused() -> None:
    model = Net()
    with pytest.raises(UsageError, match="EmbeddingCollection was moved from cpu to cuda:0 after fleet.init_worker"):
        with job(model) as optimizer:
            model.cuda()
            step_of(model, optimizer, 0, "cpu")
