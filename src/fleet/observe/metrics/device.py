"""Memory and utilisation of this process's GPU, if it has begun to use one; torch is asked, never imported."""

import sys
from collections.abc import Iterator

from fleet.observe.metrics.registry import Sample

_has_utilisation = [True]
"""Until it could not be had."""


def read() -> Iterator[Sample]:
    """The figures of the GPUs that this process uses."""
    torch = sys.modules.get("torch")
    cuda = None if torch is None else getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():  # which begins nothing by itself
        return
    # Which device is current depends on the thread; those of others have nothing of this process.
    allocated = [cuda.memory_allocated(index) for index in range(cuda.device_count())]
    reserved = sum(cuda.memory_reserved(index) for index in range(cuda.device_count()))
    yield Sample("fleet_process_gpu_memory_bytes", sum(allocated), {"what": "allocated"})
    yield Sample("fleet_process_gpu_memory_bytes", reserved, {"what": "reserved"})
    if _has_utilisation[0]:
        try:
            busy = cuda.utilization(allocated.index(max(allocated)))
            yield Sample("fleet_process_gpu_utilisation_ratio", busy / 100)
        except Exception:  # no pynvml, or a driver that does not tell
            _has_utilisation[0] = False
