"""What a model and its optimizer share: how far the update is, how the loss is scaled, how workers come together."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from fleet.collective.agree import world
from fleet.collective.modes.base import SyncPolicy
from fleet.collective.nonfinite import GradientCheck
from fleet.collective.parts.merge import Merge
from fleet.collective.parts.precision import LossScale
from fleet.errors import DivergedError, NotReadyError, NotSupportedError, UsageError

if TYPE_CHECKING:
    from fleet.collective.optimizer import CollectiveOptimizer


class StepState:
    """Made with a model; an optimizer is linked to it when both are there."""

    def __init__(
        self,
        policy: SyncPolicy,
        merge: Merge,
        scale: LossScale | None,
        check: GradientCheck,
        device: torch.device,
        needs_optimizer: bool,
    ) -> None:
        self.policy = policy
        self.check = check
        self.merge = merge
        self.scale = scale
        self.num_workers = policy.num_workers
        self.device = device
        self._needs_optimizer = needs_optimizer or scale is not None
        self.optimizer: CollectiveOptimizer | None = None
        self.loss: torch.Tensor | None = None
        """The last one that `scale_loss` saw, unscaled."""
        self.num_updates = 0
        self.has_run = False
        """Whether a batch has gone through the distributed model since the last update."""
        self.has_unreduced = False
        """Whether `no_sync` has left gradients that are this worker's alone."""
        self._is_joining = False
        self._is_loss_scaled = False
        self._num_bad_losses = 0

    def require_optimizer(self) -> None:
        """NotReadyError if the strategy needs an optimizer of Fleet's and the model has none yet."""
        if self.optimizer is None and self._needs_optimizer:
            raise NotReadyError(
                "this strategy changes what a step does; pass the optimizer of this model through "
                "fleet.distributed_optimizer() before the first batch"
            )

    def see_loss(self, loss: torch.Tensor) -> torch.Tensor:
        """Remember the loss of this batch; returns it multiplied by the loss scale, if there is one."""
        self.loss = loss.detach()
        if self.scale is None:
            return loss
        self._is_loss_scaled = True
        return loss * self.scale.factor

    def reduce_now(self) -> None:
        """Average what `no_sync` has left, if it has."""
        if not self.has_unreduced:
            return
        if self._is_joining:
            raise NotSupportedError(
                'no_sync() does not go with uneven="join": a worker without data answers backward only; '
                'use "pad" or "drop"'
            )
        self.has_unreduced = False
        self.policy.reduce_now()

    def bring_together(self, gradients: Callable[[], list[torch.Tensor]]) -> None:
        """See that the gradients of all batches since the last update are reduced, and that all are there."""
        if self.has_unreduced:
            self.reduce_now()
        elif self.has_run:
            self.policy.require_gradients()
        self._refuse_strangers(gradients)

    def _refuse_strangers(self, gradients: Callable[[], list[torch.Tensor]]) -> None:
        """UsageError for gradients of a forward that nobody was told of: they are this worker's alone."""
        if not self.has_run and self.num_workers > 1 and gradients():
            raise UsageError(
                "these gradients come from a batch that did not go through the distributed model, so they were not "
                "averaged; call model(...) itself, not model.module or a method that calls it"
            )
        self.has_run = False

    def unscale_(self, gradients: list[torch.Tensor], more: float) -> bool:
        """Take the loss scale out of the gradients; returns whether they overflowed and the step is to be left out."""
        assert self.scale is not None
        if not self._is_loss_scaled:
            raise UsageError(
                "strategy.amp in float16 needs the loss scaled, or small gradients vanish; write "
                'model.scale_loss(loss).backward(), or set strategy.amp_configs = {"dtype": "bfloat16"}'
            )
        self._is_loss_scaled = False
        has_overflowed = self.scale.unscale_(gradients, self.policy.agree_on_overflow, self.device, more)
        self.scale.update(has_overflowed)
        if has_overflowed:
            self._refuse_bad_losses()
        else:
            self._num_bad_losses = 0
        return has_overflowed

    def _refuse_bad_losses(self) -> None:
        """A scale that shrinks mends an overflow of gradients, never a loss that is itself no number."""
        assert self.scale is not None
        assert self.loss is not None
        is_bad = not bool(torch.isfinite(self.loss).all())
        bad = {dist.get_rank() if self.num_workers > 1 else 0: is_bad}
        if self.num_workers > 1 and not self.policy.steps_alone:  # there, workers overflow alone
            bad = {rank: text == b"1" for rank, text in enumerate(world().gather_bytes(b"1" if is_bad else b"0"))}
        self._num_bad_losses = self._num_bad_losses + 1 if any(bad.values()) else 0
        if any(bad.values()) and self._num_bad_losses >= self.scale.rule.decr_every_n_nan_or_inf:
            who = ", ".join(f"worker {rank}" for rank, flag in bad.items() if flag)
            raise DivergedError(
                f"the loss of {who} is not finite, {self._num_bad_losses} times in a row after {self.num_updates} "
                "updates; look at the batch and the learning rate, or train in bfloat16"
            )

    @contextmanager
    def join(self) -> Iterator[None]:
        """Inside, workers may have different numbers of batches; see `DistributedModel.join`."""
        if self.num_workers == 1:
            yield
            return
        if self.merge.k_steps > 1:
            raise NotSupportedError(
                'uneven="join" does not go with merged gradients: an update may never get its last batch; '
                'use "pad" or "drop"'
            )
        if self.scale is not None:
            raise NotSupportedError(
                'uneven="join" does not go with float16: a worker without data does not see which steps overflow; '
                'use "pad" or "drop", or bfloat16'
            )
        if self.policy.no_join:
            raise self.policy.refuse_join(self.policy.no_join)
        before = self.num_updates
        self._is_joining = True
        try:
            with self.policy.join():
                yield
        finally:
            self._is_joining = False
        if not self.policy.steps_alone:
            self._catch_up(self.num_updates - before)

    def _catch_up(self, num_updates: int) -> None:
        """Workers that ran out early take the optimizer's state from one that did not."""
        counts = torch.zeros(self.num_workers, dtype=torch.int64)
        counts[dist.get_rank()] = num_updates
        dist.all_reduce(counts)
        if self.optimizer is not None and int(counts.min()) < int(counts.max()):
            self.optimizer.share_state(int(counts.argmax()))
        self.num_updates += int(counts.max()) - num_updates
