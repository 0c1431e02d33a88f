"""What all-reduce costs a worker: bytes, time, and how much of that time lay behind backward.

Bytes are known beforehand, from the sizes of gradients. Times of DistributedDataParallel are torch's own: it times some
of its steps anyway, and is asked about the last of these now and then. Only the thread that trains asks: torch's answer
waits for a reduction that is under way, and whoever writes figures must not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.observe.metrics.registry import Sample, registry

if TYPE_CHECKING:
    import torch
    from torch.nn.parallel import DistributedDataParallel

CPU_RATE = 10
"""Every so manyth step is timed on a CPU, where that is some looks at the clock. On a GPU torch's own 100 stays."""
FIRST = 12
"""Torch times its first ten steps, and tells of each after the next one has begun; later it is asked by the clock."""
EVERY_S = 0.5


@dataclass
class Reduced:
    """What this worker has reduced. Counted by the thread that trains, read by the one that writes figures."""

    num_bytes: int = 0
    num_timed: int = 0
    """How many reductions the seconds are of."""
    seconds: float = 0.0
    overlap_s: float = 0.0
    """The part of these seconds in which backward went on."""

    def timed(self, seconds: float, overlap_s: float = 0.0) -> None:
        """Count the time of one reduction."""
        self.num_timed += 1
        self.seconds += seconds
        self.overlap_s += min(overlap_s, seconds)

    @contextmanager
    def waiting(self, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
        """The time of a reduction that the worker waits for. On a GPU it is not known: the worker only gives orders."""
        began = time.perf_counter()
        yield
        if tensors and all(tensor.device.type == "cpu" for tensor in tensors):
            self.timed(time.perf_counter() - began)

    def read(self) -> Iterator[Sample]:
        """For `fleet.observe.metrics`."""
        if self.num_bytes:
            yield Sample("fleet_worker_reduced_bytes_total", self.num_bytes)
        if self.num_timed:
            yield Sample("fleet_worker_timed_all_reduces_total", self.num_timed)
            yield Sample("fleet_worker_all_reduce_seconds_total", self.seconds)
            yield Sample("fleet_worker_all_reduce_overlap_seconds_total", self.overlap_s)


reduced = Reduced()
"""By this process."""
registry.add(reduced.read)


class DdpTimes:
    """The times of one DistributedDataParallel, as torch measures them."""

    def __init__(
        self, ddp: DistributedDataParallel, to: Reduced = reduced, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._ddp = ddp
        self._to = to
        self._clock = clock
        self._num_steps = 0
        self._next_at = 0.0
        self._last_step = 0
        if all(one.device.type == "cpu" for one in ddp.parameters()):
            ddp._set_ddp_runtime_logging_sample_rate(CPU_RATE)

    def look(self) -> None:
        """Count the last step that torch has timed, unless it was counted. Called before every step."""
        self._num_steps += 1
        now = self._clock()
        if self._num_steps > FIRST and now < self._next_at:
            return
        self._next_at = now + EVERY_S
        told = self._ddp._get_ddp_logging_data()
        step, took_ns = told.get("iteration", 0), told.get("backward_comm_time", 0)
        if step != self._last_step and took_ns > 0:
            self._last_step = step
            self._to.timed(took_ns / 1e9, told.get("backward_compute_comm_overlap_time", 0) / 1e9)
