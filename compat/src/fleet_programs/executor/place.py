"""Where a program runs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist

from fleet import env
from fleet.errors import UsageError


@dataclass(frozen=True)
class CPUPlace:
    """Host memory."""

    @property
    def device(self) -> torch.device:
        """The place as torch names it."""
        return torch.device("cpu")


@dataclass(frozen=True)
class CUDAPlace:
    """One GPU. In a job of several workers `CUDAPlace(0)` is the worker's own; with FLEET_DEVICE=cpu it is the CPU."""

    index: int = 0

    def __post_init__(self) -> None:
        if self.index < 0:
            raise UsageError(f"CUDAPlace takes the index of a GPU, from 0, got {self.index!r}")

    @property
    def device(self) -> torch.device:
        """The place as torch names it; an error if torch sees no such GPU."""
        if env.FLEET_DEVICE.get() == "CPU":
            return torch.device("cpu")
        count = torch.cuda.device_count()
        if self.index >= count:
            has = f"torch sees {count} GPUs" if count else "torch sees no GPU"
            raise UsageError(
                f"CUDAPlace({self.index}): {has}; to run on the CPU set FLEET_DEVICE=cpu, start with fleetrun --device "
                "cpu, or use CPUPlace()"
            )
        if self.index == 0 and dist.is_available() and dist.is_initialized():
            return torch.device("cuda", torch.cuda.current_device())  # fleet.init() has chosen it
        return torch.device("cuda", self.index)


@dataclass(frozen=True)
class CUDAPinnedPlace(CPUPlace):
    """Host memory from which a GPU reads faster."""


Place = CPUPlace | CUDAPlace


def device_of(place: object) -> torch.device:
    """The device of a place; a torch device or its name will do as well."""
    if isinstance(place, CPUPlace | CUDAPlace):
        return place.device
    if isinstance(place, str | torch.device):
        return torch.device(place)
    raise UsageError(f"place must be CPUPlace() or CUDAPlace(index), got {place!r}")
