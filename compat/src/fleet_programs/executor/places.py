"""`cpu_places` and `cuda_places`: the devices of this process, as lists that loaders and strategies take."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from fleet import env
from fleet.errors import UsageError
from fleet_programs.executor.place import CPUPlace, CUDAPlace


def cpu_places(device_count: int | None = None) -> list[CPUPlace]:
    """So many CPUPlaces; without `device_count` as many as CPU_NUM says, or one.

    They are one CPU all the same: a process computes on all its cores together.
    """
    count = (env.CPU_NUM.get() or 1) if device_count is None else device_count
    if type(count) is not int or count < 1:
        raise UsageError(f"cpu_places: device_count must be a whole number >= 1, got {device_count!r}")
    return [CPUPlace() for _ in range(count)]


def cuda_places(device_ids: int | Sequence[int] | None = None) -> list[CUDAPlace]:
    """A CUDAPlace for each of some GPUs; without `device_ids` each that torch sees, in a job the worker's own."""
    if device_ids is None:
        is_one = env.FLEET_DEVICE.get() == "CPU" or (dist.is_available() and dist.is_initialized())
        device_ids = range(1 if is_one else max(1, torch.cuda.device_count()))
    chosen = [device_ids] if isinstance(device_ids, int) else list(device_ids)
    return [CUDAPlace(one) for one in chosen]
