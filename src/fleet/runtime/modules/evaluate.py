"""`fleet.evaluate`: each worker measures the model on its own batches, and the counts of all are added at the end.

Each worker's batch norm follows its own batches. Measured with those, every worker would measure another model.
"""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import length_hint
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy

from fleet.errors import CommunicationError, UsageError, UsageTypeError
from fleet.metrics import Mean, Metric
from fleet.metrics.metric import exchange
from fleet.observe import progress

if TYPE_CHECKING:
    from fleet.collective.world.util import Util

Step = Callable[[nn.Module, Any], tuple[Any, Any] | tuple[Any, Any, Any] | tuple[Any, Any, Any, Any]]
MetricLike = Metric | Callable[[Any, Any], torch.Tensor | float]
_METHODS = ("update", "state", "merge", "compute", "reset")
log = logging.getLogger(__name__)


@contextmanager
def common_statistics(model: object, util: Util | None, *, of_first: bool) -> Iterator[None]:
    """Inside, batch norm has the mean of all workers' running statistics or worker 0's; afterwards its own again.

    Every worker of `util` comes here. Where they have different models nothing is lent: what follows will say so.
    """
    own = [] if util is None or not isinstance(model, nn.Module) else _running(model)
    kept = [one.detach().clone() for one in own]
    if util is not None:
        told = util.all_gather(
            torch.cat([torch.zeros(0, dtype=torch.float64), *(one.cpu().double().flatten() for one in kept)])
        )
        if own and len({len(one) for one in told}) == 1:
            _put(own, told[0] if of_first else torch.stack(told).mean(0))
    try:
        yield
    finally:
        for one, value in zip(own, kept, strict=True):
            one.data.copy_(value)


def _running(model: nn.Module) -> list[torch.Tensor]:
    norms = [one for one in model.modules() if isinstance(one, _NormBase)]
    running = [one for norm in norms for one in (norm.running_mean, norm.running_var)]
    return [one for one in running if one is not None and not is_lazy(one)]


def _put(tensors: list[torch.Tensor], values: torch.Tensor) -> None:
    parts = values.split([one.numel() for one in tensors])
    for one, part in zip(tensors, parts, strict=True):
        one.data.copy_(part.view(one.shape))


def evaluate(
    model: nn.Module,
    loader: Iterable[Any],
    metrics: Mapping[str, MetricLike],
    step: Step | None,
    util: Util | None,
    *,
    shows: bool,
    is_collective: bool = False,
) -> dict[str, float]:
    """The value of each metric over the batches of all workers; `util` is None where there are no others.

    A worker that fails tells the others when they meet, so nobody waits for it. `shows`: with a progress bar.
    """
    own: dict[str, Metric] = {}
    failure: Exception | None = None
    num_batches = 0
    with common_statistics(model, util, of_first=is_collective):
        try:
            own = _checked(model, metrics)
            # A worker that was started again knows the outcome already, and does not measure again.
            is_known = util is not None and util.knows()
            with evaluating(model):
                if not is_known:
                    way = step or take_last
                    found = _run(model, loader, list(own.values()), way, shows=shows, is_alone=util is None)
                    failure, num_batches = found
            states = [metric.state() for metric in own.values()]
        except Exception as error:
            if util is None:
                raise
            failure, own, states = error, {}, []

    def refuse(worker: int, said: Mapping[str, Any]) -> None:
        if failure is not None:
            raise failure
        if said["failed"]:
            raise CommunicationError(f"fleet.evaluate: worker {worker} failed: {said['failed']}")

    if util is not None:
        text = "" if failure is None else f"{type(failure).__name__}: {failure}".splitlines()[0]
        about = {"failed": text, "batches": num_batches}
        num_batches = sum(one["batches"] for one in exchange("fleet.evaluate", own, states, util, about, refuse))
    if not num_batches:
        log.warning(
            "fleet.evaluate: no worker had a batch, so there is nothing to measure; a generator can be read only once, "
            "give a list, a loader or fleet.data.shard(...)"
        )
    return {name: float(metric.compute()) for name, metric in own.items()}


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Inside, the model evaluates and computes no gradients; afterwards every submodule is in the mode it was in."""
    before = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, is_training in before:
            module.training = is_training


def take_last(model: nn.Module, batch: Any) -> tuple[Any, Any]:
    """`*inputs, target = batch`, moved to the device of the model; what `model(*inputs)` gives, and the target."""
    if not isinstance(batch, tuple | list) or len(batch) < 2:
        raise UsageTypeError(
            f"fleet.evaluate: a batch is (inputs ..., target), got {type(batch).__name__}; for another kind give "
            "step=lambda model, batch: (outputs, targets)"
        )
    parameter = next(model.parameters(), None)
    if parameter is not None:
        batch = [part.to(parameter.device) if isinstance(part, torch.Tensor) else part for part in batch]
    *inputs, target = batch
    return model(*inputs), target


def _checked(model: object, metrics: object) -> dict[str, Metric]:
    """The metrics to count with."""
    if not isinstance(model, nn.Module):
        raise UsageTypeError(f"fleet.evaluate: model must be a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(metrics, Mapping) or not metrics:
        raise UsageTypeError(f'fleet.evaluate: metrics must map names to metrics, {{"auc": AUC()}}, got {metrics!r}')
    return {str(name): _fresh(name, metric) for name, metric in metrics.items()}


def _fresh(name: str, metric: Any) -> Metric:
    """A copy that has counted nothing, so that what the caller has stays as it is."""
    if isinstance(metric, type):
        raise UsageTypeError(f"fleet.evaluate: metric {name!r} is a class; give an object, {metric.__name__}()")
    if isinstance(metric, Metric):
        found = copy.deepcopy(metric)
        found.reset()
        return found
    has = [method for method in _METHODS if hasattr(metric, method)]
    if "update" in has or not callable(metric):
        lacks = ", ".join(method for method in _METHODS if method not in has)
        raise UsageTypeError(
            f"fleet.evaluate: metric {name!r} is a {type(metric).__name__} without {lacks}, so the counts of workers "
            "cannot be added; give one of fleet.metrics, or a function of outputs and targets"
        )
    return Mean(metric)


def _run(
    model: nn.Module, loader: Iterable[Any], metrics: Sequence[Metric], step: Step, *, shows: bool, is_alone: bool
) -> tuple[Exception | None, int]:
    """Update the metrics with every batch; returns the error of the first that failed, and how many there were.

    The rest of a `fleet.data.shard` is read then, for other workers may wait for what it tells them.
    """
    failure: Exception | None = None
    num_batches = 0
    own_way = getattr(loader, "to_evaluate", None)
    batches = loader if own_way is None else own_way()
    for number, batch in enumerate(progress(batches, "evaluate", length_hint(loader) or None, enabled=shows)):
        num_batches += 1
        if failure is not None:
            continue
        try:
            _update(metrics, step(model, batch))
        except Exception as error:
            if is_alone or own_way is None:
                raise
            log.error("fleet.evaluate failed on batch %d: %s: %s", number, type(error).__name__, error)
            failure = error
    return failure, num_batches


def _update(metrics: Sequence[Metric], given: Any) -> None:
    """Count what `step` gave: outputs, targets, the groups of the samples (None: none), and their weights."""
    outputs, targets, *more = given
    if len(more) > 2:
        raise UsageError(f"fleet.evaluate: step gives outputs, targets, groups and weights, got {len(more) + 2} values")
    groups, weight = (*more, None, None)[:2]
    for metric in metrics:
        by_group: tuple[Any, ...] = ()
        if getattr(metric, "needs_groups", False):
            if groups is None:
                raise UsageError(
                    f"fleet.evaluate: {type(metric).__name__} is by group; give step=lambda model, batch: "
                    "(outputs, targets, groups)"
                )
            by_group = (groups,)
        weighted = {} if weight is None else {"weight": weight}
        if weighted and "weight" not in inspect.signature(metric.update).parameters:
            raise UsageError(
                f"fleet.evaluate: step gives weights, and {type(metric).__name__}.update takes none; let it take "
                "weight=, or measure it without"
            )
        update: Callable[..., None] = metric.update
        update(outputs, targets, *by_group, **weighted)
