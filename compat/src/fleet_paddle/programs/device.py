"""`device_guard`: where operators were to run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fleet.errors import NotSupportedError, UsageError


@contextmanager
def device_guard(device: str | None = None) -> Iterator[None]:
    """Operators of the block were kept on "cpu" or "gpu"; here all run where the Executor is, and give the same.

    A number after "gpu:" made a stage of a pipeline, which is not built: NotSupportedError.
    """
    if device is not None and device.partition(":")[0] not in ("cpu", "gpu"):
        raise UsageError(f"device_guard: device must be 'cpu', 'gpu' or None, got {device!r}")
    if device is not None and ":" in device:
        raise NotSupportedError(
            f"device_guard({device!r}): stages on several devices in one process are not built; "
            "start one worker for each with fleetrun"
        )
    yield
