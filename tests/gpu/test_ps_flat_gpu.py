"""fleet.ps.worker.sending.flat with a model on a GPU: servers see pinned copies, the model sees what servers sent."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from fleet.errors import UsageError
from fleet.ps.job.placement import place
from fleet.ps.worker.sending.flat import FlatParameters

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")]

RATE = 2.0**-6  # a power of two: products are exact, here and there


def flatten(net: nn.Module, num_servers: int = 3) -> FlatParameters:
    named = [(name, one, index % 2) for index, (name, one) in enumerate(net.named_parameters())]
    shapes = [(name, tuple(one.shape), group) for name, one, group in named]
    return FlatParameters(named, place(shapes, num_servers, min_block=100))


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(50, 70), nn.ReLU(), nn.Linear(70, 3)).cuda()


def test_training_is_bit_for_bit_that_of_torch() -> None:
    plain, ours = model(), model()
    flat = flatten(ours)
    for net in (plain, ours):
        optimizer = torch.optim.Adam(net.parameters(), 0.1)
        batches = torch.Generator("cuda").manual_seed(1)
        for _ in range(5):
            optimizer.zero_grad()
            net(torch.randn(16, 50, device="cuda", generator=batches)).square().sum().backward()
            optimizer.step()
    flat.collect_gradients()
    for mine, theirs in zip(ours.parameters(), plain.parameters(), strict=True):
        assert torch.equal(mine, theirs)
        assert mine.grad is not None
        assert theirs.grad is not None
        assert torch.equal(mine.grad, theirs.grad)


def test_gradients_reach_the_host_and_values_the_device() -> None:
    net = model()
    flat = flatten(net)
    for step in range(20):
        before = copy.deepcopy(net)
        flat.zero_grad()
        net(torch.randn(4096, 50, device="cuda")).square().mean().backward()
        flat.collect_gradients()
        flat.to_host()  # must wait for the backward pass
        for server in range(3):
            for group in range(2):
                gradients = np.frombuffer(b"".join(flat.pieces(server, group)), np.float32)
                values = np.frombuffer(flat.values(server, group), np.float32)
                flat.load_values(server, group, (values - RATE * gradients).tobytes())
                flat.load_values(server, group, (values - 2 * RATE * gradients).tobytes())
        for mine, theirs in zip(net.parameters(), before.parameters(), strict=True):
            assert mine.grad is not None
            assert mine.grad.any()
            assert torch.equal(mine, theirs - 2 * RATE * mine.grad), step


def test_one_device_only() -> None:
    named = [("a", nn.Parameter(torch.ones(3)), 0), ("b", nn.Parameter(torch.ones(3, device="cuda")), 0)]
    blocks = place([(name, (3,), 0) for name, _, _ in named], 1)
    with pytest.raises(UsageError, match="'b' lies on cuda:0, but 'a' on cpu; move the model to one device"):
        FlatParameters(named, blocks)


def test_a_model_moved_to_the_gpu_too_late() -> None:
    net = nn.Linear(3, 3)
    flat = flatten(net)
    net.cuda()
    with pytest.raises(UsageError, match="parameter 'weight' was moved or converted"):
        flat.collect_gradients()
