"""Deep gradient compression through DistributedDataParallel, between two real workers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from support.collective import dgc_job
from support.jobs import fleetrun


@pytest.mark.timeout(300)
def test_two_workers_train_by_what_they_send(tmp_path: Path) -> None:
    job = Path(dgc_job.__file__)
    environ = {"PYTHONPATH": str(job.parents[2]), "OMP_NUM_THREADS": "1"}
    done = fleetrun("--nproc_per_node", 2, "--device", "cpu", job, cwd=tmp_path, environ=environ, warm=True)
    assert done.code == 0, done.err
    compared = [torch.load(tmp_path / f"compared.{worker}") for worker in range(2)]
    ends = [torch.load(tmp_path / f"end.{worker}") for worker in range(2)]
    for one, other in (compared, [end["model"] for end in ends]):
        assert all(torch.equal(one[name], other[name]) for name in one)

    expected = dgc_job.simulate()
    for name, value in compared[0].items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-5, msg=name)

    for end in ends:
        assert sum(end["losses"][-4:]) < sum(end["losses"][:4]) / 2
        small, large = 256 + 64 + 64 + 1, 2 * 16384
        whole = 4 * (small + large)
        assert end["sent"][:5] == [whole, whole, whole, 4 * small + 8 * large // 4, 4 * small + 8 * 2 * 164]
        assert end["sent"][-1] == end["sent"][4]
