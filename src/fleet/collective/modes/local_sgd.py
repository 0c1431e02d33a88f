"""LocalSGD: workers train on their own and average their parameters every few steps."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from fleet.collective.modes.base import SyncPolicy
from fleet.collective.parts.average import mean_


@dataclass(frozen=True)
class Interval:
    """When parameters are averaged, and how they travel."""

    k_steps: int = 1
    begin_step: int = 1
    """Up to this step they are averaged at every step."""
    bucket_bytes: int = 32 << 20
    dtype: torch.dtype | None = None
    """What differences are cast to on the way; None sends parameters as they are."""


class LocalSGDPolicy(SyncPolicy):
    """Averages parameters and floating-point buffers every k steps from `begin_step` on."""

    name = "localsgd"
    steps_alone = True

    def __init__(self, module: nn.Module, num_workers: int, interval: Interval) -> None:
        super().__init__(module, num_workers)
        self.interval = interval
        self.k_steps = interval.k_steps
        self.num_averages = 0
        self._step = 0
        self._last = 0
        """The step after which workers were last equal."""
        self._is_joining = False
        self._parameters = [one.detach() for one in module.parameters() if one.requires_grad]
        self._buffers = [one for one in module.buffers() if one.is_floating_point()]
        # Where workers last met: what differences are measured from, where they are what is sent.
        self._anchor = [one.clone() for one in self._parameters] if self._needs_anchor() else []

    def _needs_anchor(self) -> bool:
        return self.interval.dtype is not None

    def stepped(self, loss: torch.Tensor | None) -> None:
        self._step += 1
        if not self._is_due():
            return
        if self._is_joining:
            self._average_with(is_training=True)
        else:
            self._average(None)
        self._follow(loss)

    def _is_due(self) -> bool:
        return self._step <= self.interval.begin_step or self._step - self._last >= self.k_steps

    def _follow(self, loss: torch.Tensor | None) -> None:
        """Choose the next interval; this one stays as it is."""

    @torch.no_grad()
    def _average(self, weight: float | None) -> None:
        """Make all workers equal. `weight`: this one's share; all count the same without it."""
        size = self.interval.bucket_bytes
        mean_(self._buffers, size, None, weight)
        if self._anchor:  # differences are small numbers, which a short type holds better
            moved = torch._foreach_sub(self._anchor, self._parameters)
            mean_(moved, size, self.interval.dtype, weight)
            self._move(moved)
            torch._foreach_copy_(self._parameters, self._anchor)
        else:
            mean_(self._parameters, size, None, weight)
        self._last = self._step
        self.num_averages += 1

    def _move(self, moved: tuple[torch.Tensor, ...] | list[torch.Tensor]) -> None:
        """Move the anchor by the mean difference."""
        torch._foreach_sub_(self._anchor, moved)

    def settle(self) -> None:
        if self._step > self._last:
            self._average(None)

    @contextmanager
    def join(self) -> Iterator[None]:
        """A worker without data goes on coming to the averages, where it counts for nothing."""
        self._is_joining = True
        try:
            yield
        finally:
            self._is_joining = False
        while self._average_with(is_training=False):
            pass
        steps = torch.tensor(self._step)
        dist.all_reduce(steps, dist.ReduceOp.MAX)
        self._step = self._last = int(steps)

    def _average_with(self, is_training: bool) -> bool:
        """Average over the workers that have trained since the last time; returns whether anybody still trains."""
        has_news = float(self._step > self._last)
        counts = torch.tensor([has_news, float(is_training)])
        dist.all_reduce(counts)
        news, training = counts.tolist()
        if news:
            self._average(has_news / news)
        return bool(training)

    @torch.no_grad()
    def load_full(self, state: Mapping[str, Any], strict: bool) -> Any:
        """Workers have met at what is loaded."""
        found = super().load_full(state, strict)
        self._begin_here()
        return found

    def _begin_here(self) -> None:
        self._last = self._step
        if self._anchor:
            torch._foreach_copy_(self._anchor, self._parameters)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The same on all workers after `settle`."""
        return {"step": torch.tensor(self._step)}

    def load_state_dict(self, states: list[dict[str, torch.Tensor]], index: int) -> None:  # noqa: ARG002
        self._step = int(states[0]["step"])
        self._begin_here()
