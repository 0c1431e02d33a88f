"""The watch's eyes on NCCL: what torch records of collectives on a GPU."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from fleet.collective.stall import flight
from support.processes import wait_until

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
    pytest.mark.timeout(120),
]


def test_collectives_of_nccl_are_seen_and_seen_to_end() -> None:
    torch.cuda.set_device(0)
    dist.init_process_group("cpu:gloo,cuda:nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        for tensor in (torch.ones(4, 8, device="cuda"), torch.ones(3)):
            dist.all_reduce(tensor)
        torch.cuda.synchronize()
        found = {one.backend: one for one in flight.operations()}
        assert found["nccl"].title == "all_reduce #1 (4x8 float32)"
        assert found["gloo"].title.endswith("(3 float32)")
        assert flight.members(found["nccl"].group) == [0]
        assert found["nccl"].key in flight.statuses()
        wait_until(lambda: all(one.is_done for one in flight.operations()), 30, "both to be seen to end")
        wait_until(lambda: not any(one.is_pending for one in flight.statuses().values()), 30, "both to be counted")
    finally:
        dist.destroy_process_group()
