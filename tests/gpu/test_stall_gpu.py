"""The watch's eyes on NCCL: what torch records of collectives on a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from support.jobs import clean_environ, script

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
    pytest.mark.timeout(120),
]

# In a process of its own: NCCL keeps ports open as long as there is one.
LOOK = """
import time
import torch
import torch.distributed as dist
from fleet.collective.stall import flight

torch.cuda.set_device(0)
dist.init_process_group("cpu:gloo,cuda:nccl", store=dist.HashStore(), rank=0, world_size=1)
for tensor in (torch.ones(4, 8, device="cuda"), torch.ones(3)):
    dist.all_reduce(tensor)
torch.cuda.synchronize()
found = {one.backend: one for one in flight.operations()}
assert found["nccl"].title == "all_reduce #1 (4x8 float32)", found
assert found["gloo"].title.endswith("(3 float32)"), found
assert flight.members(found["nccl"].group) == [0]
assert found["nccl"].key in flight.statuses()
deadline = time.monotonic() + 30
while not (
    all(one.is_done for one in flight.operations())
    and not any(one.is_pending for one in flight.statuses().values())
):
    assert time.monotonic() < deadline, "the collectives are not seen to end"
    time.sleep(0.01)
dist.destroy_process_group()
print("seen")
"""


def test_collectives_of_nccl_are_seen_and_seen_to_end(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, script(tmp_path, LOOK)], env=clean_environ(), capture_output=True, text=True, timeout=100
    )
    assert done.stdout == "seen\n", done.stderr
