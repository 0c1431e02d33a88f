"""Gradients that are not finite: found in one pass over all of them, then an error or a step that is left out."""

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

import torch
from torch.utils._pytree import tree_leaves

from fleet.collective.modes.base import SyncPolicy
from fleet.errors import DivergedError

log = logging.getLogger(__name__)

_REMEDY = (
    "look at the batch, the loss and the learning rate, or set strategy.nonfinite_gradients = 'skip' to leave such "
    "steps out"
)


@dataclass(frozen=True)
class _Question:
    """What a GPU was asked about a step, and will have written to the host's memory when `answered` has passed."""

    step: int
    parameters: Sequence[torch.Tensor]
    flags: torch.Tensor
    answered: torch.cuda.Event


class GradientCheck:
    """Decides about the gradients of every update, as `strategy.nonfinite_gradients` says.

    Gradients that were reduced are the same on all workers, and so is the decision: nothing is sent, except where each
    worker holds a part. A worker that steps alone decides alone. "skip" has its answer at once, and so has "error" on
    CPUs. On a GPU that would make the host wait for it at every step, so "error" reads the answer one step later: the
    parameters have taken the step by then, and the error says so.
    """

    def __init__(self, policy: SyncPolicy, skips: bool, worker: int) -> None:
        self.num_skipped = 0
        self._policy = policy
        self._skips = skips
        self._worker = worker
        self._asked: _Question | None = None
        self._outputs: list[ref[torch.Tensor]] = []

    def see(self, outputs: Any) -> None:
        """Remember, without keeping it alive, what the model returned for the batch in hand."""
        self._outputs = [ref(one) for one in tree_leaves(outputs) if isinstance(one, torch.Tensor)]

    def leaves_out(self, parameters: Sequence[torch.Tensor], step: int, loss: torch.Tensor | None) -> bool:
        """Whether the update with the gradients of `parameters` is not to be made; DivergedError if it is an error.

        `loss`: of this worker's batch, if it is known.
        """
        self.answer()
        gradients = [_own_part(one.grad) for one in parameters]
        present = [one for one in gradients if one is not None]
        if not present:
            return False
        flags = self._flags(gradients, present)
        if not self._skips and flags.device.type == "cuda":
            host = torch.empty(flags.shape, dtype=flags.dtype, pin_memory=True).copy_(flags, non_blocking=True)
            self._asked = _Question(step, parameters, host, torch.cuda.Event())
            self._asked.answered.record()
            return False
        if not bool(flags.any()):
            return False
        names = self._names(parameters, flags)
        if not self._skips:
            raise DivergedError(f"{self._finding(step, names)}{self._origin(loss)}; {_REMEDY}")
        self.num_skipped += 1
        if math.log10(self.num_skipped).is_integer():
            log.warning("%s; the step is skipped, %d so far", self._finding(step, names), self.num_skipped)
        return True

    def answer(self) -> None:
        """DivergedError if the GPU has found gradients that are not finite in the step it was last asked about."""
        asked, self._asked = self._asked, None
        if asked is None:
            return
        asked.answered.synchronize()  # the device has a whole step to do after it, so it does not run dry
        if bool(asked.flags.any()):
            finding = self._finding(asked.step, self._names(asked.parameters, asked.flags))
            raise DivergedError(f"{finding}, and the parameters have taken it; go back to a checkpoint, {_REMEDY}")

    def _flags(self, gradients: list[torch.Tensor | None], present: list[torch.Tensor]) -> torch.Tensor:
        """1 for each gradient that is not finite, else 0, the same on workers that must decide together."""
        # On CPUs the largest value takes several times as long to find as the norm. That may overflow: looked at again.
        on_cpu = present[0].device.type == "cpu"
        values = [one for one in gradients if one is not None and one.numel()]
        if len(values) < len(gradients):
            nothing = present[0].new_zeros(1)
            values = [one if one is not None and one.numel() else nothing for one in gradients]
        norms = torch._foreach_norm(values, 2 if on_cpu else math.inf)
        flags = (~torch.isfinite(torch.stack(norms))).float()
        if on_cpu and bool(flags.any()):
            found = [not bool(torch.isfinite(one).all()) for one in values]
            flags = torch.tensor(found, dtype=torch.float32)
        self._policy.agree_on_overflow(flags)
        return flags

    def _names(self, parameters: Sequence[torch.Tensor], flags: torch.Tensor) -> list[str]:
        names = {id(one): name for name, one in self._policy.module.named_parameters()}
        pairs = zip(parameters, flags.tolist(), strict=True)
        return [names.get(id(one), "a parameter") for one, is_bad in pairs if is_bad]

    def _finding(self, step: int, names: list[str]) -> str:
        more = f" (and of {len(names) - 1} more)" if len(names) > 1 else ""
        return f"step {step} on worker {self._worker}: the gradient of {names[0]!r}{more} holds a NaN or an Inf"

    def _origin(self, loss: torch.Tensor | None) -> str:
        """Where a mean over the workers got it from, as far as this worker can tell by its own outputs and loss."""
        seen = [one for one in (loss, *(known() for known in self._outputs)) if one is not None]
        if self._policy.num_workers == 1 or self._policy.steps_alone or not seen:
            return ""
        if _are_finite(seen):
            return ", though what the model returned here is finite: look at the batches of the other workers too"
        return ", and so does what the model returned here"


def _own_part(gradient: torch.Tensor | None) -> torch.Tensor | None:
    """The values that this worker holds: of a divided tensor its share, of a sparse one those that are there."""
    if gradient is None:
        return None
    local = gradient.to_local() if hasattr(gradient, "to_local") else gradient
    return local._values() if local.is_sparse else local


def _are_finite(tensors: Iterable[torch.Tensor]) -> bool:
    return all(bool(torch.isfinite(one).all()) for one in tensors if one.is_floating_point())
