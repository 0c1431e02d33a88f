"""Where operators were to run, and where batches wait for it: `device_guard`, `cuda_pinned_places`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fleet.errors import NotSupportedError, UsageError
from fleet_programs.executor.place import CUDAPinnedPlace
from fleet_programs.executor.places import cpu_places


@contextmanager
def device_guard(device: str | None = None) -> Iterator[None]:
    """Operators of the block were kept on "cpu" or "gpu"; here all run where the Executor is, and give the same.

    "gpu:0" is the one GPU of a process. Other numbers made stages of a pipeline, which are not built.
    """
    if device is not None and device.partition(":")[0] not in ("cpu", "gpu"):
        raise UsageError(f"device_guard: device must be 'cpu', 'gpu' or None, got {device!r}")
    if device is not None and ":" in device and device != "gpu:0":
        raise NotSupportedError(
            f"device_guard({device!r}): stages on several devices in one process are not built; "
            "start one worker for each with fleetrun"
        )
    yield


def cuda_pinned_places(device_count: int | None = None) -> list[CUDAPinnedPlace]:
    """So many places in memory that a GPU reads faster; without `device_count` as many as CPU_NUM says, or one."""
    return [CUDAPinnedPlace() for _ in cpu_places(device_count)]
