"""The calls of a model before its first step: noted as the script makes them, then made again and timed."""

import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

LEAST_REPEATS, MOST_SECONDS = 5, 20.0
"""How often the step is repeated, after one that warms up; fewer times where that would take longer."""


@dataclass
class ForwardCall:
    """One forward with gradients: what went in, and what came back to its outputs from the loss."""

    args: Any
    kwargs: Any
    autocast: tuple[bool, torch.dtype]
    gradients: dict[int, torch.Tensor] = field(default_factory=dict)
    """By the place of the output."""
    batch_size: int = 0


@dataclass(frozen=True)
class StepTimes:
    """Seconds of the parts of a step."""

    forward_s: float
    backward_s: float
    update_s: float
    is_warm: bool


class ForwardCalls:
    """Notes the forwards of a model that are trained on, from the moment it is made."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self._model, self._device = model, device
        self.calls: list[ForwardCall] = []
        self.before_bytes = 0
        """GPU memory in use before the first of them."""
        self._forward_s = 0.0
        self._began = self._ended = 0.0
        self._handles = [
            model.register_forward_pre_hook(self._before, with_kwargs=True),
            model.register_forward_hook(self._after),
        ]

    def stop(self) -> None:
        """Note no more calls."""
        for handle in self._handles:
            handle.remove()

    @property
    def batch_size(self) -> int:
        """How many samples all calls had together."""
        return sum(call.batch_size for call in self.calls)

    @property
    def has_autocast(self) -> bool:
        """Whether the script computes in half precision by itself."""
        return any(call.autocast[0] for call in self.calls)

    def first_times(self, update_s: float, reached_at: float) -> StepTimes:
        """The times of the script's own step, cold as it was; the loss counts as backward."""
        return StepTimes(self._forward_s, max(0.0, reached_at - self._ended) if self.calls else 0.0, update_s, False)

    def again(self, step: Callable[[], object], zero_grad: Callable[[], object], least: int) -> StepTimes:
        """Make the calls and their backward again, each followed by a step, and take the median of each part."""
        found: list[tuple[float, float, float]] = []
        began = time.perf_counter()
        number = 1 + max(LEAST_REPEATS, least)
        while len(found) < number and (len(found) < 2 or time.perf_counter() - began < MOST_SECONDS):
            zero_grad()
            forward = backward = 0.0
            for call in self.calls:
                one, other = self._repeat(call)
                forward, backward = forward + one, backward + other
            at = self.now()
            step()
            found.append((forward, backward, self.now() - at))
        parts = [statistics.median(part) for part in zip(*found[1:], strict=True)]
        return StepTimes(parts[0], parts[1], parts[2], True)

    def _repeat(self, call: ForwardCall) -> tuple[float, float]:
        enabled, dtype = call.autocast
        at = self.now()
        with torch.enable_grad():
            with torch.autocast(self._device.type, dtype, enabled=enabled):
                outputs = self._model(*call.args, **call.kwargs)
            forward = self.now() - at
            trained = [one for one in tree_leaves(outputs) if _is_trained(one)]
            pairs = [(one, call.gradients[place]) for place, one in enumerate(trained) if place in call.gradients]
            at = self.now()
            torch.autograd.backward([one for one, _ in pairs], [gradient for _, gradient in pairs])
        return forward, self.now() - at

    def now(self) -> float:
        """The time when the device has done what it was given."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()

    def _before(self, _model: nn.Module, args: Any, kwargs: Any) -> None:
        if torch.is_grad_enabled():
            if not self.calls and self._device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(self._device)
                self.before_bytes = torch.cuda.memory_allocated(self._device)
            args, kwargs = tree_map(lambda one: one.detach() if isinstance(one, torch.Tensor) else one, (args, kwargs))
            kind = self._device.type
            state = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
            self.calls.append(ForwardCall(args, kwargs, state, batch_size=samples_of((args, kwargs))))
            self._began = self.now()

    def _after(self, _model: nn.Module, _args: Any, outputs: Any) -> None:
        if not torch.is_grad_enabled() or not self.calls:
            return
        self._ended = self.now()
        self._forward_s += self._ended - self._began
        call = self.calls[-1]
        for place, output in enumerate(one for one in tree_leaves(outputs) if _is_trained(one)):
            output.register_hook(lambda gradient, place=place: call.gradients.__setitem__(place, gradient.detach()))


def samples_of(given: Any) -> int:
    """The first dimension that most tensors have: the number of samples. 1 where there are none."""
    sizes = Counter(len(one) for one in tree_leaves(given) if isinstance(one, torch.Tensor) and one.dim())
    return sizes.most_common(1)[0][0] if sizes else 1


def _is_trained(output: object) -> bool:
    return isinstance(output, torch.Tensor) and output.requires_grad
