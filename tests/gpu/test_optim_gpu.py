"""LARS, LAMB and DGC on a GPU: what they do on the CPU, without waiting for the device."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Optimizer

from fleet.collective.parts.topk import Ramp, TopK
from fleet.collective.parts.unsent import Correction, Unsent
from fleet.optim import Lamb, Lars

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")]


@contextmanager
def no_waiting() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@contextmanager
def one_worker() -> Iterator[None]:
    dist.init_process_group("cpu:gloo,cuda:nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("kind", ["lars", "lamb"])
def test_optimizers(kind: str) -> None:
    trained = []
    for device in ("cpu", "cuda"):
        generator = torch.Generator().manual_seed(0)
        params = [
            nn.Parameter(torch.randn(shape, generator=generator).to(device)) for shape in ((40, 30), (30,), (7, 5))
        ]
        exclude = params[1:2]
        optimizer: Optimizer = (
            Lars(params, lr=1.0, no_decay=exclude) if kind == "lars" else Lamb(params, no_decay=exclude)
        )
        for step in range(4):
            for param in params:
                param.grad = torch.randn(param.shape, generator=generator).to(device)
            if step == 0:
                optimizer.step()  # makes the state
                continue
            with no_waiting():
                optimizer.step()
        trained.append([param.detach().cpu() for param in params])
    torch.testing.assert_close(trained[0], trained[1], rtol=1e-5, atol=1e-6)


def test_what_is_taken() -> None:
    n, count = 100_000, 100
    weight = torch.randn(n, generator=torch.Generator().manual_seed(0))
    taken = []
    for device in ("cpu", "cuda"):
        unsent = Unsent(weight.to(device))
        index, value = torch.empty(count, dtype=torch.int32, device=device), torch.empty(count, device=device)
        sent = []
        for step in range(4):
            grad = torch.randn(n, generator=torch.Generator().manual_seed(step)).to(device)
            with no_waiting():
                unsent.take(grad, Correction(0.9, 0.01, nesterov=True, max_norm=200.0), index, value, native=False)
            sent.append(torch.zeros(n, device=device).index_add_(0, index, value).cpu())
        taken.append([*sent, unsent.sum.cpu(), unsent.momentum.cpu()])
    torch.testing.assert_close(taken[0], taken[1], rtol=1e-4, atol=1e-4)


def test_training_through_ddp() -> None:
    """In a process of its own: NCCL keeps ports open as long as there is one."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def train_through_ddp() -> None:
    trained = []
    with one_worker():
        for device in ("cpu", "cuda"):
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64), nn.Tanh(), nn.Linear(64, 1)).to(
                device
            )
            ddp = DistributedDataParallel(model, bucket_cap_mb=0.1, gradient_as_bucket_view=True)
            topk = TopK({param: name for name, param in model.named_parameters()}, Ramp([0.99], begin_step=2))
            topk.attach(ddp)
            optimizer = topk.take(SGD(model.parameters(), lr=0.02, momentum=0.9))
            losses = []
            for step in range(60):
                x = torch.randn(32, 64, generator=torch.Generator().manual_seed(step % 4)).to(device)
                loss = nn.functional.mse_loss(ddp(x), x[:, :8].sum(1, keepdim=True))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                topk.advance()
                losses.append(loss.item())
            trained.append(losses)
    assert trained[1][:6] == pytest.approx(trained[0][:6], rel=1e-3)
    assert sum(trained[1][-4:]) < sum(trained[1][:4]) / 2


if __name__ == "__main__":
    train_through_ddp()
