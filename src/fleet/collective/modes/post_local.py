"""Post-local training: gradients are averaged at first; later workers train alone and an outer optimizer joins them.

With Adam inside and Nesterov momentum outside this is the recipe known as DiLoCo: the mean distance that the workers
have moved since they last met is the gradient of the outer optimizer.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from fleet.collective.modes.base import Call
from fleet.collective.modes.local_sgd import Interval, LocalSGDPolicy
from fleet.collective.modes.reduce_grad import ReduceGrad
from fleet.errors import UsageError
from fleet.strategy.collective import PostLocalConfigs


class PostLocal(LocalSGDPolicy):
    """ReduceGrad up to `begin_step`; then every k steps the outer optimizer moves the anchor."""

    name = "post_local"

    def __init__(
        self,
        module: nn.Module,
        num_workers: int,
        interval: Interval,
        outer: PostLocalConfigs,
        reduce_grad: ReduceGrad | None,
    ) -> None:
        """`outer`: SGD with momentum on the mean distance moved.

        `reduce_grad`: how workers train before `begin_step`, if there is a before.
        """
        super().__init__(module, num_workers, interval)
        self._outer = outer
        self._reduce_grad = reduce_grad
        self._velocity = [torch.zeros_like(one) for one in self._parameters]

    @property
    def is_local(self) -> bool:
        """Whether workers train alone by now."""
        return self._reduce_grad is None or self._step >= self.interval.begin_step

    @property
    def training_call(self) -> Call:
        if self._reduce_grad is None or self.is_local:
            return self.module
        return self._reduce_grad.training_call

    def expect(self, reduces: bool) -> None:
        if self._reduce_grad is not None and not self.is_local:
            self._reduce_grad.expect(reduces)

    def reduce_now(self) -> None:
        if self._reduce_grad is not None and not self.is_local:
            self._reduce_grad.reduce_now()

    def require_gradients(self) -> None:
        if self._reduce_grad is not None and not self.is_local:
            self._reduce_grad.require_gradients()

    def explain(self, error: RuntimeError) -> UsageError | None:
        return None if self._reduce_grad is None else self._reduce_grad.explain(error)

    def _needs_anchor(self) -> bool:
        return True

    @torch.no_grad()
    def stepped(self, loss: torch.Tensor | None) -> None:
        if self.is_local:
            super().stepped(loss)
            return
        self._step += 1
        self._last = self._step  # equal without our help
        if self.is_local:
            torch._foreach_copy_(self._anchor, self._parameters)

    def _is_due(self) -> bool:
        return self._step - self._last >= self.k_steps

    def _move(self, moved: tuple[torch.Tensor, ...] | list[torch.Tensor]) -> None:
        outer = self._outer
        torch._foreach_mul_(self._velocity, outer.outer_momentum)
        torch._foreach_add_(self._velocity, moved)
        if outer.nesterov:
            direction = torch._foreach_add(moved, self._velocity, alpha=outer.outer_momentum)
        else:
            direction = tuple(self._velocity)
        torch._foreach_add_(self._anchor, direction, alpha=-outer.outer_lr)

    @contextmanager
    def join(self) -> Iterator[None]:
        if not self.is_local:
            raise self.refuse_join("workers train together until post_local_configs.begin_step")
        with super().join():
            yield

    def _begin_here(self) -> None:
        super()._begin_here()
        torch._foreach_zero_(self._velocity)

    def state_dict(self) -> dict[str, torch.Tensor]:
        names = [f"velocity.{number}" for number in range(len(self._velocity))]
        return super().state_dict() | dict(zip(names, self._velocity, strict=True))

    def load_state_dict(self, states: list[dict[str, torch.Tensor]], index: int) -> None:
        super().load_state_dict(states, index)
        for number, velocity in enumerate(self._velocity):
            velocity.copy_(states[0][f"velocity.{number}"])
