"""The contract of a policy, and the policy of a job of one worker."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from fleet.errors import NotSupportedError, UsageError

Call = Callable[..., Any]


def has_stepped(optimizer: Optimizer) -> bool:
    """Whether an optimizer has state from training; some have an initial state before any step."""
    return any(float(state.get("step", 1)) > 0 for state in optimizer.state.values() if state)


def refuse_stepped(optimizer: Optimizer, name: str) -> None:
    """UsageError if an optimizer has state that the policy `name` would have to divide."""
    if has_stepped(optimizer):
        raise UsageError(
            f"this {type(optimizer).__name__} has state already, which {name} would have to divide; call "
            "fleet.distributed_model() and fleet.distributed_optimizer() before the first step"
        )


class SyncPolicy:
    """How one model's workers bring their gradients or parameters together.

    Every method is called on all workers, in the same order and equally often, except where it says otherwise. This
    class is the policy of a single worker, and the default of every other: nothing is sent, nothing is equalised.

        forward         `training_call`, after `expect(reduces)`
        backward        the policy reduces gradients while it runs, if it was told to
        optimizer       `before_step()`, the optimizer from `take(optimizer)` steps, then `stepped()`
    """

    name = "one worker"
    no_join = ""
    """Why workers cannot have different numbers of batches, where they cannot."""
    steps_alone = False
    """Whether each worker steps on gradients of its own."""

    def __init__(self, module: nn.Module, num_workers: int = 1) -> None:
        self.module = module
        self.num_workers = num_workers

    @property
    def training_call(self) -> Call:
        """What runs a batch that will be followed by backward."""
        return self.module

    def expect(self, reduces: bool) -> None:
        """Choose whether the next backward brings gradients together, or only adds to what is there."""

    def take(self, optimizer: Optimizer) -> Optimizer:
        """The optimizer that steps on this worker, in the place of the user's; it shares its param_groups."""
        return optimizer

    def state_owner(self, optimizer: Optimizer) -> Optimizer:
        """Who has the state of `optimizer`, which `take` gave: itself, or the part that is this worker's."""
        return optimizer

    def to_clip(self, parameters: list[torch.Tensor]) -> list[torch.Tensor]:
        """The parameters whose gradients are still to be clipped, not those that were clipped before they were sent."""
        return parameters

    def reduce_now(self) -> None:
        """Average the gradients that were accumulated without being reduced."""

    def require_gradients(self) -> None:
        """UsageError if backward has left a reduction unfinished, because it did not reach all parameters."""

    def explain(self, error: RuntimeError) -> UsageError | None:
        """What to raise in the place of an error of `training_call`, where more can be said about it."""

    def before_step(self) -> None:
        """The gradients are final; the optimizer is about to step."""

    def stepped(self, loss: torch.Tensor | None) -> None:
        """The optimizer has stepped; `loss` is the last one that `scale_loss` saw."""

    def settle(self) -> None:
        """Make the parameters equal on all workers, if they may differ."""

    def agree_on_overflow(self, flag: torch.Tensor) -> None:
        """Make `flag` (1 where a gradient overflowed) the same on the workers that must skip a step together."""

    @contextmanager
    def join(self) -> Iterator[None]:
        """Inside, workers may have different numbers of batches."""
        yield

    def refuse_join(self, reason: str) -> NotSupportedError:
        """The error to raise where `uneven="join"` cannot work, with the reason."""
        return NotSupportedError(f'uneven="join" does not go with {self.name}: {reason}; use "pad" or "drop"')

    def full_state_dict(self, state: dict[str, Any]) -> dict[str, Any]:
        """The whole tensors of what `module.state_dict()` gave."""
        return state

    def load_full(self, state: Mapping[str, Any], strict: bool) -> Any:
        """Load whole tensors into the module."""
        return self.module.load_state_dict(state, strict=strict)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """What this worker alone knows, beside parameters and optimizer: for checkpoints."""
        return {}

    def load_state_dict(self, states: list[dict[str, torch.Tensor]], index: int) -> None:
        """Take over what the workers of an earlier job saved; there may have been more or fewer of them."""
