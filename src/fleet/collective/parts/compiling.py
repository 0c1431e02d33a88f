"""torch.compile: how long it searches for fast kernels, and a line now and then while the first batch waits for it."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd import Variable
from torch.utils._pytree import tree_leaves

from fleet.strategy import DistributedStrategy

log = logging.getLogger(__name__)

_EVERY_S = 10.0

_SEARCHES: dict[str, dict[str, Any]] = {
    "none": {},
    "wide": {"max_autotune_pointwise": True},
    "long": {"coordinate_descent_tuning": True},
}
"""What `strategy.compile_configs.kernel_search` asks of torch's compiler."""


def compiled(call: Callable[..., Any], strategy: DistributedStrategy) -> Callable[..., Any]:
    """`call` through torch.compile; the first batches are slow."""
    configs = strategy.compile_configs
    how: dict[str, Any] = {"dynamic": True if configs.dynamic else None}
    from torch._inductor import list_mode_options  # it takes a second, which only who compiles has to wait

    from fleet.collective.parts.masks import PlainMasks

    # torch takes a mode or options, not both.
    given = {**list_mode_options(configs.mode), **_SEARCHES[configs.kernel_search]}
    how["options"] = {**given, "pre_grad_custom_pass": PlainMasks()}
    made: Callable[..., Any] = torch.compile(call, **how)
    return made


class CompileProgress:
    """Says how long the first batches of a compiled model have taken so far.

    Forward and backward are compiled, each when it first runs. Once a batch has gone through both without a word,
    nothing is watched any more.
    """

    def __init__(self, who: str, every_s: float = _EVERY_S) -> None:
        """`who`: the field of the strategy that has chosen to compile."""
        self._who = who
        self._every_s = every_s
        self._spent_s = 0.0
        self._has_spoken = False
        self._spoken_s = 0.0
        self._is_over = False
        self._stop: Callable[[], None] = _nothing

    @contextmanager
    def forward(self) -> Iterator[None]:
        """Around a batch's forward."""
        if self._is_over:
            yield
            return
        self._has_spoken = False
        self._begin()
        try:
            yield
        finally:
            self._stop()

    def backward_of(self, outputs: Any) -> None:
        """Watch the backward of what forward has returned, when it comes."""
        if self._is_over:
            return
        for one in tree_leaves(outputs):
            if isinstance(one, torch.Tensor) and one.requires_grad:
                one.register_hook(self._begin_backward)
                return

    def _begin_backward(self, _: torch.Tensor) -> None:
        self._begin()
        Variable._execution_engine.queue_callback(self._end_backward)

    def _end_backward(self) -> None:
        self._stop()
        self._is_over = not self._has_spoken
        if self._is_over and self._spoken_s:
            log.warning("%s: compiled the model in %.0f s", self._who, self._spoken_s)

    def _begin(self) -> None:
        self._stop()  # one whose end was never heard of, because of an error
        ended = threading.Event()
        begun = time.monotonic()
        thread = threading.Thread(target=self._speak, args=(begun, ended), name="fleet-compile-progress", daemon=True)

        def stop() -> None:
            self._stop = _nothing
            ended.set()
            thread.join()
            self._spent_s += time.monotonic() - begun
            if self._has_spoken:
                self._spoken_s = self._spent_s

        self._stop = stop
        thread.start()

    def _speak(self, begun: float, ended: threading.Event) -> None:
        while not ended.wait(self._every_s):
            self._has_spoken = True
            so_far_s = self._spent_s + time.monotonic() - begun
            log.warning("%s: compiling the model, %.0f s so far", self._who, so_far_s)


def _nothing() -> None:
    """There is nothing to stop."""
