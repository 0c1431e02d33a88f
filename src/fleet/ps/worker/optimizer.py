"""`fleet.distributed_optimizer`: a torch optimizer whose step runs on the servers."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet.optim.common import Uncopied, loss_of
from fleet.ps.job.from_torch import check_unchanged
from fleet.ps.job.named_spec import RuleSpec
from fleet.ps.worker.sending.norms import clip_here
from fleet.ps.worker.worker import Worker, has_left

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Share:
    """What one optimizer of a job is responsible for."""

    rules: Sequence[RuleSpec] = ()
    """The rules of its param_groups."""
    dense_groups: Mapping[int, int] = field(default_factory=dict)
    """The dense groups that it trains, ascending, each with its param_group."""
    table_groups: Mapping[int, int] = field(default_factory=dict)
    """Tables that follow one of its param_groups."""
    table_lrs: Mapping[int, float] = field(default_factory=dict)
    """Tables with a rule of their own."""
    statistics: Mapping[int, float] = field(default_factory=dict)
    """The dense group of running statistics, if there is one, and its rate."""
    average: Callable[[torch.Tensor], None] | None = None
    """Makes a tensor its mean over the workers, where dense parameters stay with these; None: they do not."""
    frozen: Sequence[tuple[str, torch.Tensor]] = ()
    """Parameters that need no gradient, and so have no place in a dense group."""
    untrained: Sequence[tuple[str, torch.Tensor]] = ()
    """Parameters that need a gradient and are in no optimizer of a job of several workers."""


class ServerOptimizer(Uncopied, Optimizer):
    """Stands for a torch optimizer: same param_groups, so learning-rate schedules and `lr` changes work as usual.

    `step()` sends gradients to the servers, which apply the optimizer's rule; the learning rate of each group goes
    along with every push. In geo mode, and with `strategy.dense = "allreduce"`, the optimizer itself updates the dense
    parameters, and servers hold the tables only.
    """

    def __init__(self, inner: Optimizer, job: object = None) -> None:
        if not isinstance(inner, Optimizer):
            raise UsageTypeError(
                f"optimizer must be a torch.optim.Optimizer, got {type(inner).__name__}; give it for example "
                "torch.optim.Adam(model.parameters())"
            )
        # Not Optimizer.__init__, which would make groups of its own: everything is the inner one's.
        self.__dict__.update(inner.__dict__)
        self.inner = inner
        self._step_supports_amp_scaling = True
        self.job = job
        """The job that made it."""
        self._worker: Worker | None = None
        self._has_left = False
        self._weights: list[torch.Tensor] = []  # the `weight`s that stand for rows
        self._share = Share()
        self._is_elsewhere = False  # whether its state is on servers, even if this worker has left them
        self._settings: list[list[Any]] = []
        self._versions: list[int] = []
        self._is_stepping = False
        self._guard: RemovableHandle | None = None

    def bind(self, worker: Worker, share: Share) -> None:
        """Belong to a worker from now on, as `fleet.init_worker()` found out."""
        self._worker, self._share, self._has_left = worker, share, False
        self._is_elsewhere = share.average is None and not worker.policy.trains_locally
        self._guard = self.inner.register_step_pre_hook(self._refuse_inner_step)
        self._versions = [parameter._version for _, parameter in share.untrained]
        self._weights = [one for group in self.param_groups for one in group["params"] if not one.numel()]

    @property
    def steps_here(self) -> bool:
        """Whether the optimizer itself updates dense parameters, so that their state is in this worker."""
        worker = self._worker
        return worker is not None and (self._share.average is not None or worker.policy.trains_locally)

    def unbind(self) -> None:
        """Let go of the worker, which has stopped."""
        self._worker, self._has_left = None, True
        if self._guard is not None:
            self._guard.remove()

    def _refuse_inner_step(self, inner: Optimizer, *_: Any) -> None:
        """Refuse a step of the inner optimizer alone: it would train this worker's layers, and no rows."""
        if not self._is_stepping:
            raise UsageError(
                f"step() was called on the {type(inner).__name__} that fleet.distributed_optimizer() was given; call "
                "it on what that returned: optimizer = fleet.distributed_optimizer(optimizer)"
            )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Send the gradients; on return the model has the parameters of the next step."""
        loss = loss_of(closure)
        worker = self._worker
        if self._has_left:
            raise has_left("optimizer.step()")
        if worker is None:
            raise NotReadyError(
                "optimizer.step() needs the servers; call fleet.init_worker() first (a model without tables can do "
                "without servers: begin with fleet.init(is_collective=True))"
            )
        self._check_unchanged()
        share, flat = self._share, worker.flat
        if not self._unscale(worker):
            worker.zero_grad({*share.table_lrs, *share.table_groups})
            worker.step({}, {**share.table_lrs, **dict.fromkeys(share.table_groups, 0.0)}, self)
            return loss
        if share.average is None:
            self._clip(worker)
        if flat is not None and self.steps_here:
            flat.collect_gradients()
            if share.average is not None:
                flat.note_presence()
                share.average(flat.shared_buffer)
                flat.heed_presence()
                self._clip(worker)
            if worker.takes(flat.of_groups(flat.gradient_buffer, {*share.dense_groups, *share.statistics})):
                self._step_here()
                if share.average is not None:
                    flat.take_statistics()
        rates = [_rate(index, group["lr"]) for index, group in enumerate(self.param_groups)]
        dense = {} if share.average is not None else {index: rates[own] for index, own in share.dense_groups.items()}
        if share.average is None:
            dense |= share.statistics
        table_lrs = {**share.table_lrs, **{table: rates[own] for table, own in share.table_groups.items()}}
        worker.step(dense, table_lrs, self)
        return loss

    def _clip(self, worker: Worker) -> None:
        """Scale down what this step sends, if its norm is too large; not where servers clip the mean over workers."""
        job, share = worker.client.job, self._share
        if job.clip_norm is not None and not job.clips_on_servers:
            clip_here(worker, job.clip_norm, share.dense_groups, {*share.table_lrs, *share.table_groups})

    def _step_here(self) -> None:
        """Step on dense parameters alone, without the gradients of `weight`s, which only stand for those of rows."""
        signs = [weight.grad for weight in self._weights]
        for weight in self._weights:
            weight.grad = None
        self._is_stepping = True
        try:
            self.inner.step()
        finally:
            self._is_stepping = False
        for weight, sign in zip(self._weights, signs, strict=True):
            weight.grad = sign

    def _unscale(self, worker: Worker) -> bool:
        """Unscale as `torch.amp.GradScaler` asks of an optimizer that does so itself; False: skip this step.

        Left to itself it would unscale dense gradients only, for it does not know the rows. A worker that skips a step
        still takes part in it, with nothing, so that the others do not wait.
        """
        if "found_inf" not in self.__dict__:
            return True
        share = self._share
        tables = {*share.table_lrs, *share.table_groups}
        if self.__dict__["grad_scale"] is None and tables:
            raise UsageError(
                "scaler.unscale_(optimizer) cannot reach the rows of tables; leave it out, scaler.step(optimizer) "
                "unscales all gradients"
            )
        if float(self.__dict__["found_inf"]):
            return False
        if self.__dict__["grad_scale"] is not None:
            worker.multiply_gradients(1.0 / float(self.__dict__["grad_scale"]), share.dense_groups, tables)
        return True

    def _check_unchanged(self) -> None:
        """UsageError for changes that servers do not follow: of settings but lr, and of what is frozen."""
        for name, parameter in self._share.frozen:
            if parameter.requires_grad:
                raise UsageError(
                    f"parameter {name!r} needs a gradient now, but was frozen in fleet.init_worker(); call "
                    "fleet.stop_worker() and fleet.init_worker() to train it"
                )
        for (name, parameter), version in zip(self._share.untrained, self._versions, strict=True):
            if parameter._version != version and parameter.grad is not None:
                raise UsageError(
                    f"parameter {name!r} is trained on this worker alone, by an optimizer that is not distributed, so "
                    "each worker has its own; give that one to fleet.distributed_optimizer() too"
                )
        settings = [
            [value for name, value in group.items() if name not in ("params", "lr")] for group in self.param_groups
        ]
        if settings != self._settings:
            check_unchanged(self.inner, self._share.rules)
            self._settings = settings

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients, or, without `set_to_none`, set those of layers to zeros.

        As in torch, a parameter whose `.grad` is None at `step()` stays as it is, and so does its state; with one of
        zeros a momentum or weight decay moves it. Rows have no gradients in either case.
        """
        worker, share = self._worker, self._share
        if worker is None or worker.flat is None:
            self.inner.zero_grad(set_to_none)
        else:
            worker.flat.zero_grad(share.dense_groups, set_to_none=set_to_none)
            worker.zeroed(share.dense_groups)
        if worker is not None:
            worker.zero_grad({*share.table_lrs, *share.table_groups})

    def state_dict(self) -> dict[str, Any]:
        """The inner optimizer's state; what servers have is saved by `fleet.save_persistables`, as a warning says."""
        if self._is_elsewhere:
            _warn()
        return self.inner.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the inner optimizer's state; UsageError if there is state that would have to be on the servers."""
        worker = self._worker
        is_local = worker is None or self._share.average is not None or worker.policy.trains_locally
        if state_dict["state"] and not is_local:
            raise UsageError(
                "the state of this optimizer is on the servers and cannot be loaded from a state_dict; use "
                "fleet.load_model() with what fleet.save_persistables() wrote"
            )
        self.inner.load_state_dict(state_dict)
        self.param_groups = self.inner.param_groups


@cache
def _warn() -> None:
    """Warn, once in a process."""
    log.warning(
        "optimizer.state_dict() has no state, which is on the servers: save it with fleet.save_persistables() or "
        "fleet.Checkpoint, and load it with fleet.load_model()"
    )


def _rate(group: int, lr: Any) -> float:
    if isinstance(lr, str):
        raise UsageError(f"lr of parameter group {group} must be a number, got {lr!r}; write it without quotes")
    return float(lr)
