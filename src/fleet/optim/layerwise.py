"""What LARS and LAMB share: a step of each parameter measured against its own norm, and taking over from torch.

An optimizer that takes over keeps the other's `param_groups` list and state themselves, not copies: a learning-rate
schedule attached to the other goes on working, and so does a checkpoint of it.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from fleet.errors import UsageError
from fleet.optim.common import loss_of

log = logging.getLogger(__name__)

Group = dict[str, Any]
HALF = (torch.float16, torch.bfloat16)


class Layerwise(Optimizer):
    """An optimizer that updates all parameters of a group at once; a subclass says how in `_update`."""

    def __init__(self, params: Iterable[Any], defaults: Group, no_decay: Collection[Tensor] = ()) -> None:
        super().__init__(params, defaults)
        self._no_decay = frozenset(no_decay)
        self._original: Optimizer | None = None

    @abstractmethod
    def _update(self, group: Group, weights: list[Tensor], grads: list[Tensor], weight_decay: float) -> None:
        """Make one step of parameters that share device, dtype and settings."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; waits for no device."""
        loss = loss_of(closure)
        for group in self.param_groups:
            for weights, decayed in self._alike(group["params"]):
                grads = [weight.grad for weight in weights if weight.grad is not None]
                self._update(group, weights, grads, float(group["weight_decay"]) if decayed else 0.0)
        if self._original is not None:
            # Where a schedule attached to the other optimizer looks to see whether it comes after the first step.
            self._original._opt_called = True  # type: ignore[attr-defined]
        return loss

    def _alike(self, params: list[Tensor]) -> Iterator[tuple[list[Tensor], bool]]:
        """The parameters with a gradient in lists of one device and dtype, and whether weight decay is for them."""
        kinds: dict[tuple[torch.device, torch.dtype, bool], list[Tensor]] = {}
        for param in params:
            if param.grad is None:
                continue
            if param.grad.is_sparse:
                raise UsageError(
                    f"{type(self).__name__} got a sparse gradient for a parameter of shape {list(param.shape)}, "
                    "whose norm would mean nothing; make its embedding with sparse=False"
                )
            kinds.setdefault((param.device, param.dtype, param not in self._no_decay), []).append(param)
        for (_, _, decayed), alike in kinds.items():
            yield alike, decayed

    def _take_over(self, original: Optimizer, weight_decay: float) -> None:
        """Use the groups and the state of another optimizer, which must not step any more."""
        for group in original.param_groups:
            group["weight_decay"] = weight_decay
        self.param_groups = original.param_groups
        self.state = original.state
        self._original = original

    def load_state_dict(self, state_dict: Group) -> None:
        """Load what `state_dict()` gave; an optimizer that took over goes on sharing its groups and state."""
        shared = self.param_groups
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)
        shared[:] = self.param_groups
        self.param_groups = shared
        if self._original is not None:
            self._original.state = self.state


def norms(tensors: list[Tensor]) -> Tensor:
    """The norm of each tensor, in one tensor on their device; in float32 where they are in half precision."""
    dtype = torch.float32 if tensors[0].dtype in HALF else None
    return torch.stack(torch._foreach_norm(tensors, 2, dtype=dtype))


def scale_(tensors: list[Tensor], factors: Tensor) -> None:
    """Multiply each tensor by its factor, in place and without asking the device what the factors are."""
    torch._foreach_mul_(tensors, factors.to(tensors[0].dtype).unbind())


def matching(names: Mapping[Parameter, str], parts: Collection[str]) -> list[Parameter]:
    """The parameters whose name contains one of the parts."""
    for part in parts:
        if not any(part in name for name in names.values()):
            log.warning("exclude_from_weight_decay: no parameter has %r in its name", part)
    return [param for param, name in names.items() if any(part in name for part in parts)]


def refuse_unless(
    original: Optimizer, kinds: tuple[type[Optimizer], ...], wanted: str, purpose: str, weight_decay: float
) -> None:
    """Raise unless `purpose` can do all that the settings of `original` ask for."""
    if not isinstance(original, kinds):
        raise UsageError(f"{purpose} takes the place of {wanted}, got {type(original).__name__}; use that optimizer")
    for group in original.param_groups:
        for flag in ("maximize", "differentiable", "amsgrad", "dampening"):
            if group.get(flag):
                raise UsageError(f"{purpose} does not know {flag}={group[flag]!r}; leave it out of {wanted}")
        if group["weight_decay"] not in (0, weight_decay):
            raise UsageError(
                f"{purpose} has a weight decay of its own, {weight_decay}, and {type(original).__name__} was given "
                f"weight_decay={group['weight_decay']}; set the latter to 0 or both to the same"
            )


def check_at_least(least: float, **values: float) -> None:
    """Raise unless every value is at least `least`."""
    for name, value in values.items():
        if not value >= least:
            raise UsageError(f"{name} must be >= {least:g}, got {value}")
