"""Where a program runs."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fleet.errors import UsageError


@dataclass(frozen=True)
class CPUPlace:
    """Host memory."""

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")


@dataclass(frozen=True)
class CUDAPlace:
    """One GPU."""

    index: int = 0

    def __post_init__(self) -> None:
        if self.index < 0:
            raise UsageError(f"CUDAPlace takes the index of a GPU, from 0, got {self.index!r}")

    @property
    def device(self) -> torch.device:
        count = torch.cuda.device_count()
        if self.index >= count:
            has = f"torch sees {count} GPUs" if count else "torch sees no GPU"
            raise UsageError(f"CUDAPlace({self.index}): {has}; use CPUPlace() to run on the CPU")
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
