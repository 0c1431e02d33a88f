"""A worker's steps: how many, on how many samples, and which part of a step takes how long.

Called by the thread that trains, a few times a step, and by nobody else; no lock is needed. Times are those of that
thread: on a GPU, `forward` and `backward` are what it takes to launch them.
"""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from fleet.observe.metrics.registry import Histogram, Sample
from fleet.observe.metrics.step_count import StepCount
from fleet.observe.tracing import profiler
from fleet.observe.tracing.tracer import tracer

T = TypeVar("T")

STEP_BOUNDS = tuple(base * 10.0**power for power in range(-4, 3) for base in (1, 2, 5))
"""From 0.1 ms to 500 s."""


class StepFigures:
    """The steps of one worker. `clock` in seconds from anywhere, `wall` in seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter, wall: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._wall = wall
        self.count = StepCount()
        """Says which calls of `optimizer.step()` make one step; of a job with servers, its worker's."""
        self.num_steps = 0
        self.num_samples = 0
        self.inside: Callable[[], float] = lambda: 0.0
        """Seconds so far of parts that lie inside others and are counted elsewhere: route, pull, push, wait, dense."""
        self._says_samples = False
        self._seconds = dict.fromkeys(("data", "forward", "backward", "optimizer"), 0.0)
        self._lengths = Histogram(STEP_BOUNDS)
        self._is_new, self._is_open = True, False  # whether this optimizer begins a step; whether others may step in it
        self._last_at: float | None = None
        self._last_wall = 0.0
        self._began: tuple[float, float] | None = None
        self._forward_end: tuple[float, float] | None = None
        self._mark: profiler.Mark | None = None
        """The mark of the part that torch.profiler sees now."""

    def data(self, batches: Iterator[T]) -> Iterator[T]:
        """The same batches; the time that each takes to come is counted, and with each may begin a step."""
        count = self.count
        loop = count.open_loop()
        try:
            while True:
                self._close_step()
                began, mark = self._clock(), profiler.begin("data")
                try:
                    batch = next(batches)
                except StopIteration:
                    return
                finally:
                    now = self._clock()
                    self._seconds["data"] += now - began
                    profiler.end(mark)
                    if tracer.is_on:
                        tracer.add("data", began, now)
                count.hand_out(loop)
                yield batch
        finally:
            count.close_loop(loop)
            if (close := getattr(batches, "close", None)) is not None:
                close()

    def begin_forward(self, num_samples: int) -> None:
        """A batch of so many samples goes into the model, to be trained on."""
        if not self._says_samples:
            self.num_samples += num_samples
        self._next_mark("forward")
        self._began = self._clock(), self.inside()

    def end_forward(self) -> None:
        """The batch of `begin_forward` has come out of the model."""
        if self._began is not None:
            self._forward_end = self._clock(), self.inside()
            self._add("forward", self._began, self._forward_end)
            self._began = None
            self._next_mark("backward")

    def begin_step(self, *, is_new: bool = True) -> None:
        """An optimizer steps; `is_new`: a step begins with it."""
        self._is_new = is_new
        if is_new:
            self._close_step()
        self._began = self._clock(), self.inside()
        if self._forward_end is not None:
            self._add("backward", self._forward_end, self._began)
            self._forward_end = None
        self._next_mark("optimizer")

    def end_step(self, *, is_whole: bool = True) -> None:
        """An optimizer has stepped; `is_whole`: no other one will step in this step."""
        now = self._clock()
        if self._began is not None:
            self._add("optimizer", self._began, (now, self.inside()))
            self._began = None
        if self._is_new:
            if self._last_at is not None:
                self._lengths.add(now - self._last_at)
            self._last_at = now
            self.num_steps += 1
        self._last_wall, self._is_open = self._wall(), True
        self._next_mark(None)
        if is_whole:
            self._close_step()

    def _close_step(self) -> None:
        """No optimizer steps in the present step any more."""
        if self._is_open and tracer.is_armed:
            tracer.after_step(self.num_steps)
        self._is_open = False

    def say_samples(self, number: int) -> None:
        """The script itself counts samples; from now on it alone does."""
        if not self._says_samples:
            self._says_samples, self.num_samples = True, 0
        self.num_samples += number

    @property
    def idle_s(self) -> float:
        """How long ago the last step ended; 0 before the first."""
        return 0.0 if self._last_at is None else self._clock() - self._last_at

    def read(self) -> Iterator[Sample]:
        """What was counted."""
        if not self.num_steps and not self.num_samples:
            return
        yield Sample("fleet_worker_steps_total", self.num_steps)
        yield Sample("fleet_worker_samples_total", self.num_samples)
        yield Sample("fleet_worker_step_seconds", self._lengths.read())
        if self._last_wall:
            yield Sample("fleet_worker_last_step_timestamp_seconds", self._last_wall)
        for part, seconds in self._seconds.items():
            yield Sample("fleet_worker_part_seconds_total", seconds, {"part": part})

    def _add(self, part: str, begin: tuple[float, float], end: tuple[float, float]) -> None:
        self._seconds[part] += max(0.0, (end[0] - begin[0]) - (end[1] - begin[1]))
        if tracer.is_on:
            tracer.add(part, begin[0], end[0])

    def _next_mark(self, part: str | None) -> None:
        profiler.end(self._mark)
        self._mark = None if part is None else profiler.begin(part)


steps = StepFigures()
"""The steps of this process."""
