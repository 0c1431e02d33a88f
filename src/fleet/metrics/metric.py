"""What `fleet.evaluate` asks of a metric: counts that are kept in each worker, and added up at the end; as sums.

`fleet.metrics.gather` adds up those that workers have updated each by itself.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from fleet.errors import UsageError, UsageTypeError
from fleet.metrics.inputs import Doubts


@runtime_checkable
class Metric(Protocol):
    """Anything with these five methods; `fleet.metrics.AUC` is one.

    The state is a tensor of whatever shape. Merging the states of all workers, one after the other, must give what one
    metric would have that had seen all of their batches.
    """

    def update(self, outputs: Any, targets: Any, /) -> None:
        """Count a batch."""

    def state(self) -> torch.Tensor:
        """A copy of what was counted."""

    def merge(self, state: torch.Tensor, /) -> None:
        """Add what another metric of the same kind counted."""

    def compute(self) -> float:
        """The value of everything counted so far."""

    def reset(self) -> None:
        """Forget everything."""


class Sums:
    """A metric whose state is sums in double precision, on the device of what was given last: nothing waits for it."""

    _shape: tuple[int, ...] = (2,)
    """The sum of what is measured, and the number of samples, or the sum of their weights; others have more."""

    def __init__(self) -> None:
        self._doubts = Doubts()
        self._sums = torch.zeros(self._shape, dtype=torch.float64)

    def _add(self, sums: torch.Tensor) -> None:
        self._sums = self._sums.to(sums.device) + sums.detach().double()

    def _read(self) -> torch.Tensor:
        self._doubts.settle()
        return self._sums.cpu()

    def compute(self) -> float:
        """The value of everything counted so far; NaN before the first sample."""
        total, num = self._read().tolist()
        return float(total / num) if num else float("nan")

    def state(self) -> torch.Tensor:
        """A copy of the sums, float64. States may be added."""
        return self._read().clone()

    def merge(self, state: torch.Tensor) -> None:
        """Add another metric's `state()`."""
        check_state(self, state, torch.float64, tuple(self._sums.shape))
        self._sums = self._sums + state.to(self._sums.device)

    def reset(self) -> None:
        """Forget everything."""
        self._doubts = Doubts()
        self._sums = torch.zeros_like(self._sums, device="cpu")


def check_state(metric: object, state: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """UsageError if it is not what `state()` of such a metric gives."""
    if not isinstance(state, torch.Tensor):
        raise UsageTypeError(f"state must be a tensor, got {type(state).__name__}")
    if state.dtype is not dtype or tuple(state.shape) != shape:
        raise UsageError(
            f"state must be the {dtype} {list(shape)} that {type(metric).__name__}.state() gives, got {state.dtype} "
            f"{list(state.shape)}; use the same settings on every worker"
        )


class Gathers(Protocol):
    """What of `fleet.util` is needed."""

    def all_gather(self, input: Any) -> list[Any]:
        """The values of all workers."""


def gather(metrics: Mapping[str, Metric], util: Gathers) -> dict[str, float]:
    """The value of each metric over all workers, the same on every one of them; one exchange for all metrics.

    Every worker calls it with the same names: `fleet.metrics.gather({"auc": auc, "loss": loss}, fleet.util)`. The
    metrics stay as they are, and may be updated further.
    """
    given: Any = metrics
    if not isinstance(given, Mapping) or not given:
        raise UsageTypeError(f'gather takes metrics by name, {{"auc": auc}}, got {given!r}')
    for name, metric in given.items():
        if not isinstance(metric, Metric):
            raise UsageTypeError(
                f"gather: {name!r} is a {type(metric).__name__}, no metric of fleet.metrics or like one"
            )
    own = {name: copy.deepcopy(metric) for name, metric in metrics.items()}
    exchange("gather", own, [metric.state() for metric in own.values()], util)
    return {name: float(metric.compute()) for name, metric in own.items()}


def exchange(
    call: str,
    own: Mapping[str, Metric],
    counted: Iterable[torch.Tensor],
    util: Gathers,
    about: Mapping[str, Any] | None = None,
    check: Callable[[int, Mapping[str, Any]], None] = lambda _worker, _about: None,
) -> list[Mapping[str, Any]]:
    """Let each metric have what all workers counted, added in their order: the same bits everywhere; one exchange.

    `counted` are the states of this worker's metrics, `about` is what it says besides. What all have said comes back,
    once `check` has let it pass.
    """
    states = [state.detach().cpu().contiguous() for state in counted]
    said = {
        **(about or {}),
        "names": list(own),
        "kinds": [_kind(metric) for metric in own.values()],
        "states": [[str(state.dtype).removeprefix("torch."), list(state.shape)] for state in states],
    }
    body = b"".join(state.reshape(-1).view(torch.uint8).numpy().tobytes() for state in states)
    given = util.all_gather(np.frombuffer(json.dumps(said).encode() + b"\n" + body, dtype=np.uint8))
    told = [one.tobytes().partition(b"\n") for one in given]
    heads = [json.loads(line) for line, _, _ in told]
    for worker, head in enumerate(heads):
        check(worker, head)
    for worker, head in enumerate(heads):
        _compare(call, own, worker, head)
    for metric in own.values():
        metric.reset()
    for head, (_, _, body) in zip(heads, told, strict=True):
        _add(own, head["states"], body)
    return heads


def _compare(call: str, own: Mapping[str, Metric], worker: int, head: Mapping[str, Any]) -> None:
    """UsageError where a worker has other metrics than this one."""
    if head["names"] != list(own):
        raise UsageError(
            f"{call}: worker {worker} has the metrics {', '.join(head['names'])}, this one {', '.join(own)}; "
            "give the same on every worker"
        )
    for (name, metric), kind in zip(own.items(), head["kinds"], strict=True):
        if kind != _kind(metric):
            raise UsageError(
                f"{call}: {name!r} is {kind} on worker {worker} and {_kind(metric)} on this one; use the same settings "
                "on every worker"
            )


def _add(own: Mapping[str, Metric], forms: list[Any], body: bytes) -> None:
    """Let each metric have what a worker counted."""
    kinds = [(getattr(torch, dtype), shape) for dtype, shape in forms]
    sizes = [torch.empty(0, dtype=dtype).element_size() * int(np.prod(shape)) for dtype, shape in kinds]
    ends = np.cumsum([0, *sizes]).tolist()
    for metric, (dtype, shape), (begin, end) in zip(own.values(), kinds, pairwise(ends), strict=True):
        state = torch.empty(shape, dtype=dtype)
        if end > begin:
            state.view(-1).view(torch.uint8).numpy()[:] = np.frombuffer(body[begin:end], dtype=np.uint8)
        metric.merge(state)


def _kind(metric: Metric) -> str:
    """What a metric measures; what changes that, beside its name, may stand in `settings`."""
    settings: Mapping[str, Any] = getattr(metric, "settings", {})
    return f"{type(metric).__name__}({', '.join(f'{name}={value!r}' for name, value in settings.items())})"
