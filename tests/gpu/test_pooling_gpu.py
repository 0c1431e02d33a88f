"""fleet.nn.pooling on a GPU gives what it gives on the CPU."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

import fleet
from fleet.nn.pooling import pool, pool_slots
from support.parity.training import joined

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
]


def rows_and_inverse(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(40, 10, generator=generator)
    inverse = torch.randint(0, 40, (26, 100), generator=generator)
    return rows.to(device).requires_grad_(), inverse.to(device)


def assert_same(on_gpu: torch.Tensor, gpu_rows: torch.Tensor, on_cpu: torch.Tensor, cpu_rows: torch.Tensor) -> None:
    on_gpu.square().sum().backward()
    on_cpu.square().sum().backward()
    assert on_gpu.device.type == "cuda"
    torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=1e-5, atol=1e-5)
    assert gpu_rows.grad is not None
    assert cpu_rows.grad is not None
    torch.testing.assert_close(gpu_rows.grad.cpu(), cpu_rows.grad, rtol=1e-4, atol=1e-4)


def test_slots() -> None:
    gpu_rows, gpu_inverse = rows_and_inverse("cuda")
    cpu_rows, cpu_inverse = rows_and_inverse("cpu")
    assert_same(pool_slots(gpu_rows, gpu_inverse), gpu_rows, pool_slots(cpu_rows, cpu_inverse), cpu_rows)


@pytest.mark.parametrize("mode", ["none", "sum", "mean"])
def test_pool(mode: Literal["none", "sum", "mean"]) -> None:
    gpu_rows, gpu_inverse = rows_and_inverse("cuda")
    cpu_rows, cpu_inverse = rows_and_inverse("cpu")
    on_gpu, on_cpu = pool(gpu_rows, gpu_inverse, mode=mode), pool(cpu_rows, cpu_inverse, mode=mode)
    assert_same(on_gpu, gpu_rows, on_cpu, cpu_rows)


@pytest.mark.parametrize("mode", ["none", "sum", "mean"])
def test_padding(mode: Literal["none", "sum", "mean"]) -> None:
    outs = []
    for device in ("cuda", "cpu"):
        rows, inverse = rows_and_inverse(device)
        with torch.no_grad():
            rows[7] = 0.0
        out = pool(rows, inverse, mode=mode, padding_row=7)
        out.square().sum().backward()
        assert rows.grad is not None
        outs.append((out.cpu(), torch.cat([rows.grad[:7], rows.grad[8:]]).cpu()))
    torch.testing.assert_close(outs[0], outs[1], rtol=1e-4, atol=1e-4)


def test_weights() -> None:
    """Of a module whose rows come from a server in this process: weights in host memory get their gradient there."""
    ids = torch.tensor([[1, 0, 2], [0, 3, 3]])
    found = []
    for device in ("cuda", "cpu"):
        weights = torch.linspace(-1, 1, 6).view(2, 3).requires_grad_()
        model = fleet.nn.Embedding(4, pooling="sum", padding_idx=0, rule=fleet.rules.SGD(lr=0.5)).to(device)
        with joined(model=model) as one:
            for _ in range(3):
                out = one.model(ids, per_sample_weights=weights)
                out.square().sum().backward()
                one.optimizer.step()
        assert out.device.type == device
        assert weights.grad is not None
        assert weights.grad.device.type == "cpu"
        found.append((out.detach().cpu(), weights.grad))
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-6)
