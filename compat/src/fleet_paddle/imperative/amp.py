"""Mixed precision for a loop of the script's own: `auto_cast` around the forward pass, `GradScaler` around the rest.

    scaler = amp.GradScaler(init_loss_scaling=1024)
    for x, y in loader:
        with amp.auto_cast():
            loss = criterion(net(x), y)
        scaled = scaler.scale(loss)
        scaled.backward()
        scaler.minimize(optimizer, scaled)
        optimizer.clear_grad()

`strategy.amp` does the same for `fleet.distributed_model`, without the scaler.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from fleet.collective.parts.precision import LossScale
from fleet.errors import NotSupportedError, UsageError
from fleet.strategy.training import AMPConfigs
from fleet_paddle.imperative.place import current
from fleet_paddle.imperative.tensor import Tensor, as_paddle

__all__ = ["GradScaler", "auto_cast"]


@contextmanager
def auto_cast(
    enable: bool = True, custom_white_list: Any = None, custom_black_list: Any = None, level: str = "O1"
) -> Iterator[None]:
    """Inside, what is safe and quicker so is computed in 16 bits: float16 on a GPU, bfloat16 on a CPU.

    Which operations that are is torch's choice.
    """
    if custom_white_list or custom_black_list:
        raise NotSupportedError(
            "auto_cast: custom_white_list and custom_black_list are not built; put what must stay float32 into "
            "auto_cast(enable=False)"
        )
    if level != "O1":
        raise NotSupportedError(f"auto_cast: level must be 'O1', got {level!r}; convert the layer with .to(dtype=...)")
    place = current()
    with torch.autocast(place.type, torch.bfloat16 if place.type == "cpu" else torch.float16, enabled=bool(enable)):
        yield


class GradScaler:
    """The loss times a factor, so that small float16 gradients survive, and gradients divided by it before a step.

    Gradients that are not finite leave a step out. The factor grows by `incr_ratio` after `incr_every_n_steps` steps,
    and shrinks by `decr_ratio` after `decr_every_n_nan_or_inf` that were left out, one after the other.
    """

    def __init__(
        self,
        enable: bool = True,
        init_loss_scaling: float = 2.0**15,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        incr_every_n_steps: int = 1000,
        decr_every_n_nan_or_inf: int = 2,
        use_dynamic_loss_scaling: bool = True,
    ) -> None:
        if incr_ratio <= 1 or not 0 < decr_ratio < 1:
            raise UsageError(
                f"GradScaler: incr_ratio must be > 1 and decr_ratio between 0 and 1, got {incr_ratio} and {decr_ratio}"
            )
        self._enable = bool(enable)
        self._scale = LossScale(
            AMPConfigs(
                init_loss_scaling=float(init_loss_scaling),
                incr_every_n_steps=incr_every_n_steps,
                decr_every_n_nan_or_inf=decr_every_n_nan_or_inf,
                incr_ratio=incr_ratio,
                decr_ratio=decr_ratio,
                use_dynamic_loss_scaling=bool(use_dynamic_loss_scaling),
            )
        )
        self._overflowed: dict[int, bool] = {}

    def is_enable(self) -> bool:
        """Whether it does anything."""
        return self._enable

    def is_use_dynamic_loss_scaling(self) -> bool:
        """Whether the factor changes."""
        return self._enable and self._scale.rule.use_dynamic_loss_scaling

    def scale(self, var: torch.Tensor) -> Tensor:
        """The loss times the factor."""
        made: torch.Tensor = var * self._scale.factor if self._enable else var
        return as_paddle(made)

    @torch.no_grad()
    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients now, to look at them or clip them; `step` does it where this was not called."""
        if self._enable and id(optimizer) not in self._overflowed:
            trained = [one for group in optimizer.param_groups for one in group["params"]]
            gradients = [one.grad for one in trained if one.grad is not None]
            self._overflowed[id(optimizer)] = self._scale.unscale_(gradients, lambda _flag: None, current())

    def step(self, optimizer: Any) -> None:
        """The optimizer's step, unless a gradient is not finite; `update` comes after it."""
        self.unscale_(optimizer)
        if not self._overflowed.get(id(optimizer), False):
            optimizer.step()

    def update(self) -> None:
        """Let the factor follow what was found since the last time."""
        if self._overflowed:
            self._scale.update(any(self._overflowed.values()))
            self._overflowed.clear()

    def minimize(self, optimizer: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002 - the loss, whose backward was called
        """`step` and `update`, after `scaled.backward()`."""
        self.step(optimizer)
        self.update()

    def state_dict(self) -> dict[str, Any]:
        """The factor, and what it follows."""
        return dict(self._scale.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self._scale.load_state_dict(state_dict)
