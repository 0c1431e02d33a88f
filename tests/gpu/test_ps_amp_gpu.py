"""Half precision beside servers: a scaler on the GPU reaches rows, layers and statistics alike."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fleet

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = fleet.nn.Embedding(8, rule=fleet.rules.SGD(lr=0.1))
        self.norm, self.layer = nn.BatchNorm1d(16), nn.Linear(16, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layer(self.norm(self.rows(ids).flatten(1))).squeeze(1)
        return logits


def trained(scale: float | None) -> tuple[torch.Tensor, float]:
    """What the model computes after training, in half precision where there is a scale."""
    fleet.init()
    try:
        torch.manual_seed(0)
        model = fleet.distributed_model(Model().cuda())
        optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        fleet.init_worker()
        scaler = torch.amp.GradScaler("cuda", init_scale=scale or 1.0, enabled=scale is not None)
        for step in range(20):
            ids = torch.randint(100, (64, 2), generator=torch.Generator().manual_seed(step))
            with torch.autocast("cuda", torch.float16, enabled=scale is not None):
                logits = model(ids).float()
            loss = nn.functional.binary_cross_entropy_with_logits(logits, (ids.sum(1) % 2).float().cuda())
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        with torch.no_grad():
            return model.eval()(torch.arange(20).view(-1, 2)).cpu(), scaler.get_scale()
    finally:
        fleet.shutdown()


def test_half_precision_is_close() -> None:
    torch.testing.assert_close(trained(2.0**12)[0], trained(None)[0], atol=2e-2, rtol=0)


def test_steps_that_overflow_are_skipped_until_the_scale_fits() -> None:
    logits, scale = trained(2.0**40)
    assert scale < 2.0**40
    assert logits.isfinite().all()
