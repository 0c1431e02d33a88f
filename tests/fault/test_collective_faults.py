"""A worker that fails in the middle of a collective step is named; nobody waits the half hour of a process group."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import LIMIT_S, fleetrun, script

TRAIN = """
    import torch
    from torch import nn
    import fleet

    fleet.init(is_collective=True)
    model = fleet.distributed_model(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))


    def break_down(gradient):
        raise ArithmeticError("this batch cannot be differentiated")


    for step in range(10):
        outputs = model(torch.randn(8, 4))
        if step == 3 and fleet.worker_index() == 1:
            outputs.register_hook(break_down)
        outputs.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.timeout(LIMIT_S + 60)
def test_a_worker_that_raises_in_backward_is_the_cause(tmp_path: Path) -> None:
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", script(tmp_path, TRAIN), cwd=tmp_path, warm=True)
    assert result.code == 1
    assert "worker 1 failed: exit code 1" in result.err
    assert "ArithmeticError: this batch cannot be differentiated" in result.err
