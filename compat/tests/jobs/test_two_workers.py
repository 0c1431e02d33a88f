"""Two workers train an imperative network as one process would that sees both workers' batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fleet_paddle.imperative as paddle
from jobs import two_workers_job as job
from support.jobs import fleetrun


@pytest.mark.timeout(300)
def test_two_workers_equal_one(tmp_path: Path) -> None:
    result = fleetrun("--gpus=0,1", job.__file__, "after", cwd=tmp_path, environ={"FLEET_DEVICE": "cpu"}, warm=True)
    assert result.code == 0, result.err
    for index in range(2):
        log = (tmp_path / "log" / f"workerlog.{index}").read_text()
        assert log.count("loss:[") == len(job.SEEDS) * job.STEPS
    after = paddle.load(tmp_path / "after")
    assert after.pop("total").tolist() == [3, 3]
    # 10 * [1, 2] and worker 1's [2, 4]; worker 0's own first tensor and worker 1's; the first of worker 1's list
    assert after.pop("exchanged").tolist() == [12, 24, 1, 2, 2, 4, 2, 4]
    nets = [job.new(seed) for seed in job.SEEDS]
    for place, (net, (optimizer, rate)) in enumerate(zip(nets, job.optimizers(nets), strict=True)):
        job.loop(net, optimizer, rate, 0, 1)
        for name, value in net.state_dict().items():
            np.testing.assert_allclose(after[f"{place}.{name}"].numpy(), value.numpy(), atol=1e-6)
