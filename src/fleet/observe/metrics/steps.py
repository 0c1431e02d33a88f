"""A worker's steps: what counts as one, how many, on how many samples, and which part of a step takes how long.

Called by the thread that trains, a few times a step, and by nobody else; no lock is needed. Times are those of that
thread: on a GPU, `forward` and `backward` are what it takes to launch them.

In a loop over `fleet.data` or `fleet.steps` a step is over when the loop hands out its next batch. Batches whose
gradients are accumulated make one step together, for a step begins when an optimizer steps. In any other loop a step is
over when an optimizer steps that has stepped in it already: several optimizers that step once a batch each, as those
of a generator and its discriminator, make one step of it.

Where workers run out of batches at different times and the others' steps wait for them, the steps of the others count
too once the epoch is over: the count is then the same on all workers.
"""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from fleet.observe.metrics.registry import Histogram, Sample
from fleet.observe.tracing import profiler
from fleet.observe.tracing.tracer import tracer

T = TypeVar("T")
STEP_BOUNDS = tuple(base * 10.0**power for power in range(-4, 3) for base in (1, 2, 5))
"""From 0.1 ms to 500 s."""


class StepCount:
    """Counts the steps of one worker. Used from the thread that trains."""

    def __init__(self, num_optimizers: int = 1) -> None:
        self.num = 0
        """How many steps have begun: those behind the script, and from its first optimizer on the present one."""
        self.num_of_others = 0
        """How many of them other workers made while this one had no batch left."""
        self._num_optimizers = num_optimizers
        self._stepped: set[int] = set()
        self._loop: int | None = None  # whose batch the step began with
        self._num_loops = 0
        self._open: set[int] = set()
        self._fresh: set[int] = set()  # loops that have handed out a batch since the step began

    def go_to(self, num: int, num_of_others: int = 0) -> None:
        """So many steps lie behind the script, of a former life or of the run whose checkpoint it has loaded."""
        self.num, self.num_of_others = num, num_of_others

    def follow(self, num: int) -> None:
        """Count the steps that other workers have made, up to `num`: this one had no batch left."""
        self.go_to(num, self.num_of_others + num - self.num)

    def open_loop(self) -> int:
        """A loop over data begins; the number it has from now on."""
        self._num_loops += 1
        self._open.add(self._num_loops)
        return self._num_loops

    def hand_out(self, loop: int) -> None:
        """A loop hands out a batch."""
        self._fresh.add(loop)

    def close_loop(self, loop: int) -> None:
        """A loop is over, or was left."""
        self._open.discard(loop)
        self._fresh.discard(loop)

    def enter(self, optimizer: object) -> bool:
        """An optimizer steps; whether a new step begins with it."""
        is_again = id(optimizer) in self._stepped
        if self._loop is None:
            is_new = not self._stepped or is_again or bool(self._fresh)
        else:
            is_over = self._loop in self._fresh or self._loop not in self._open
            is_new = is_over or (is_again and bool(self._fresh))
        if is_new:
            self.num += 1
            self._stepped.clear()
            self._loop = max(self._fresh, default=None)  # of loops inside each other, the inner one
        self._fresh.clear()
        self._stepped.add(id(optimizer))
        return is_new

    @property
    def num_own(self) -> int:
        """How many steps this worker has made itself, as its script would count them."""
        return self.num - self.num_of_others

    @property
    def is_behind_loop(self) -> bool:
        """Whether a loop over data was left, and the present step is not of another that goes on."""
        return bool(self._num_loops) and not self.is_in_loop

    @property
    def is_in_loop(self) -> bool:
        """Whether the present step began with a batch of a loop over data that goes on."""
        return self._loop in self._open

    @property
    def is_whole(self) -> bool:
        """Whether every optimizer of the job has stepped in the present step."""
        return len(self._stepped) >= self._num_optimizers


class StepFigures:
    """The steps of one worker. `clock` in seconds from anywhere, `wall` in seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter, wall: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._wall = wall
        self.count = StepCount()
        """Says which calls of `optimizer.step()` make one step; of a job with servers, its worker's."""
        self.num_steps = 0
        self.num_samples = 0
        self.between: Callable[[], object] | None = None
        """Called between two steps of a loop over data."""
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
                if self.between is not None:
                    self.between()
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
