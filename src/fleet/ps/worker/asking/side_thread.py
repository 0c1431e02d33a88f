"""A thread beside the one that trains, and on a GPU a stream beside the model's, to make what the next batch needs.

Work is done one after the other, in the order in which it was handed in. On a GPU it does not wait for what the model
does, unless it asks for that; whoever takes a result has its own stream wait for it, not itself.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

import torch

from fleet.ps.worker.parts.contract import StepPart

T = TypeVar("T")
After = Callable[[], None]
"""Has the thread's stream wait for what the model's had been given when the work was handed in."""


class MadeNow(Generic[T]):
    """A thing that was made at once."""

    def __init__(self, made: T) -> None:
        self._made = made

    def get(self) -> T:
        """What was made."""
        return self._made


class NoSideThread(StepPart):
    """Makes things when they are asked for, in a job where a thread would gain nothing; also the contract."""

    def make(self, work: Callable[[After], T]) -> MadeNow[T] | MadeLater[T]:
        """Have a thing made by `work`, which calls what it is given before it touches what the model changes."""
        return MadeNow(work(_at_once))


class MadeLater(Generic[T]):
    """A thing that the thread makes, or has made."""

    def __init__(self, future: Future[tuple[T, torch.cuda.Event | None]], device: torch.device) -> None:
        self._future = future
        self._device = device

    def get(self) -> T:
        """Wait until it is made; on a GPU the current stream waits for its contents."""
        made, ready = self._future.result()
        if ready is not None:
            torch.cuda.current_stream(self._device).wait_event(ready)
        return made


class SideThread(NoSideThread):
    """One thread; `close` ends it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        # It has little to do, and the next batch waits for that, so it goes before the model.
        self._stream = torch.cuda.Stream(device, priority=-1) if device.type == "cuda" else None
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="fleet-aside", initializer=self._enter)

    def _enter(self) -> None:
        """Set the thread's stream once for all: `with torch.cuda.stream()` asks the driver three times."""
        torch.set_grad_enabled(False)
        if self._stream is not None:
            torch.cuda.set_stream(self._stream)

    def make(self, work: Callable[[After], T]) -> MadeLater[T]:
        stream = self._stream
        begun = None if stream is None else torch.cuda.current_stream(self._device).record_event()

        def run() -> tuple[T, torch.cuda.Event | None]:
            if stream is None or begun is None:
                return work(_at_once), None
            return work(partial(stream.wait_event, begun)), stream.record_event()

        return MadeLater(self._threads.submit(run), self._device)

    def close(self) -> None:
        self._threads.shutdown()


def _at_once() -> None:
    """Return at once: on a CPU nothing is under way."""


def used_here(tensor: torch.Tensor) -> torch.Tensor:
    """Tell torch that the current stream uses a tensor of the thread's: its memory stays until that is over."""
    if tensor.device.type == "cuda":
        tensor.record_stream(torch.cuda.current_stream(tensor.device))
    return tensor
