"""`fleet.distributed_optimizer`: a torch optimizer whose step runs on the servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import Optimizer

from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet.optim.closure import loss_of
from fleet.optim.paddle_methods import PaddleMethods
from fleet.ps.from_torch import check_unchanged

if TYPE_CHECKING:
    from fleet.ps.spec import RuleSpec
    from fleet.ps.worker import Worker


class ServerOptimizer(PaddleMethods, Optimizer):
    """Stands for a torch optimizer: same param_groups, so learning-rate schedules and `lr` changes work as usual.

    `step()` sends gradients to the servers, which apply the optimizer's rule; the learning rate of each group goes
    along with every push. In geo mode, and with `strategy.dense = "allreduce"`, the optimizer itself updates the dense
    parameters, and servers hold the tables only.
    """

    def __init__(self, inner: Optimizer) -> None:
        if not isinstance(inner, Optimizer):
            raise UsageTypeError(
                f"optimizer must be a torch.optim.Optimizer, got {type(inner).__name__}; give it for example "
                "torch.optim.Adam(model.parameters())"
            )
        # Not Optimizer.__init__, which would make groups of its own: everything is the inner one's.
        self.__dict__.update(inner.__dict__)
        self.inner = inner
        self._worker: Worker | None = None
        self._rules: Sequence[RuleSpec] = ()
        self._settings: list[list[Any]] = []
        self._dense_groups: Sequence[int] = ()
        self._table_groups: dict[int, int] = {}
        self._table_lrs: dict[int, float] = {}
        self._average: Callable[[torch.Tensor], None] | None = None
        self._frozen: Sequence[tuple[str, torch.Tensor]] = ()

    def bind(
        self,
        worker: Worker,
        rules: Sequence[RuleSpec],
        dense_groups: Sequence[int],
        table_groups: dict[int, int],
        table_lrs: dict[int, float],
        average: Callable[[torch.Tensor], None] | None,
        frozen: Sequence[tuple[str, torch.Tensor]] = (),
    ) -> None:
        """Take over what `fleet.init_worker()` found out.

        `dense_groups`: the param_group of each dense group on the servers. `table_groups`: tables that follow a
        param_group; `table_lrs`: tables with a rule of their own. `average`: dense gradients by all-reduce. `frozen`:
        parameters that have no place on the servers.
        """
        self._worker, self._rules, self._dense_groups = worker, rules, dense_groups
        self._table_groups, self._table_lrs, self._average = table_groups, table_lrs, average
        self._frozen = frozen

    def unbind(self) -> None:
        """Let go of the worker, which has stopped."""
        self._worker = None

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Send the gradients; on return the model has the parameters of the next step."""
        loss = loss_of(closure)
        worker = self._worker
        if worker is None:
            raise NotReadyError(
                "optimizer.step() needs the servers; call fleet.init_worker() first (a model without tables can do "
                "without servers: begin with fleet.init(is_collective=True))"
            )
        self._check_unchanged()
        flat = worker.flat
        if flat is not None and (self._average is not None or worker.policy.trains_locally):
            flat.collect_gradients()
            if self._average is not None:
                self._average(flat.gradient_buffer)
            if worker.takes(flat.gradient_buffer):
                self.inner.step()
        rates = [_rate(index, group["lr"]) for index, group in enumerate(self.param_groups)]
        table_lrs = {**self._table_lrs, **{table: rates[group] for table, group in self._table_groups.items()}}
        worker.step([rates[group] for group in self._dense_groups], table_lrs, has_dense=self._average is None)
        return loss

    def _check_unchanged(self) -> None:
        """Servers follow changes of lr only; anything else that moved is an error."""
        for name, parameter in self._frozen:
            if parameter.requires_grad:
                raise UsageError(
                    f"parameter {name!r} needs a gradient now, but was frozen in fleet.init_worker(); call "
                    "fleet.stop_worker() and fleet.init_worker() to train it"
                )
        settings = [
            [value for name, value in group.items() if name not in ("params", "lr")] for group in self.param_groups
        ]
        if settings != self._settings:
            check_unchanged(self.inner, self._rules)
            self._settings = settings

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: ARG002 - gradients stay views of one buffer
        """Set every gradient to zero. They stay where they are, so `set_to_none` makes no difference."""
        flat = None if self._worker is None else self._worker.flat
        if flat is None:
            self.inner.zero_grad()
        else:
            flat.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        """The inner optimizer's; what servers keep is saved by `fleet.save_persistables`."""
        return self.inner.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The inner optimizer's; UsageError if there is state that would have to be on the servers."""
        worker = self._worker
        if state_dict["state"] and worker is not None and self._average is None and not worker.policy.trains_locally:
            raise UsageError(
                "the state of this optimizer is on the servers and cannot be loaded from a state_dict; use "
                "fleet.load_model() with what fleet.save_persistables() wrote"
            )
        self.inner.load_state_dict(state_dict)
        self.param_groups = self.inner.param_groups


def _rate(group: int, lr: Any) -> float:
    if isinstance(lr, str):
        raise UsageError(f"lr of parameter group {group} must be a number, got {lr!r}; write it without quotes")
    return float(lr)
