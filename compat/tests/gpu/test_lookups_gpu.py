"""Ids of a program on a GPU: checked and freed of padding in host memory, by one wait for all of them."""

from __future__ import annotations

import pytest
import torch

from fleet.errors import UsageError
from fleet_programs.jobs.lookups import Reader

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")]


def test_ids_on_a_gpu() -> None:
    gpu = torch.device("cuda", 0)
    reader = Reader(["padded", "plain", "any"], [6, 6, 0], [3, -1, -1], gpu)
    given = [torch.tensor(ids, device=gpu) for ids in ([[0], [3], [5]], [[3], [4]], [[-(2**40)]])]
    padded, plain, anywhere = reader.read(given)
    assert [ids.real.tolist() for ids in (padded, plain, anywhere)] == [[0, 5], [3, 4], [-(2**40)]]
    assert all(ids.real.device.type == "cpu" for ids in (padded, plain, anywhere))
    assert padded.spread(torch.ones(2, 1, device=gpu)).tolist() == [[1.0], [0.0], [1.0]]
    assert padded.picked(torch.arange(3.0, device=gpu)[:, None]).tolist() == [[0.0], [2.0]]
    given[1][0] = 6
    with pytest.raises(UsageError, match="id 6 is not in table 'plain', whose ids are 0 to 5"):
        reader.read(given)
