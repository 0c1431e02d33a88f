"""`fleet.metrics.gather`: metrics that workers have updated each by itself, over all of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch

from fleet.errors import UsageError, UsageTypeError
from fleet.metrics.metric import Metric


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
    states = [metric.state().detach().cpu().contiguous() for metric in metrics.values()]
    head = {
        "names": list(metrics),
        "kinds": [_kind(metric) for metric in metrics.values()],
        "states": [[str(state.dtype).removeprefix("torch."), list(state.shape)] for state in states],
    }
    body = b"".join(state.reshape(-1).view(torch.uint8).numpy().tobytes() for state in states)
    told = util.all_gather(np.frombuffer(json.dumps(head).encode() + b"\n" + body, dtype=np.uint8))
    own = {name: copy.deepcopy(metric) for name, metric in metrics.items()}
    for metric in own.values():
        metric.reset()
    for worker, data in enumerate(told):
        _add(own, worker, data.tobytes())
    return {name: float(metric.compute()) for name, metric in own.items()}


def _add(own: Mapping[str, Metric], worker: int, data: bytes) -> None:
    """Let each metric have what a worker counted."""
    line, _, body = data.partition(b"\n")
    head = json.loads(line)
    if head["names"] != list(own):
        raise UsageError(
            f"gather: worker {worker} has the metrics {', '.join(head['names'])}, this one {', '.join(own)}; "
            "give the same on every worker"
        )
    for (name, metric), kind in zip(own.items(), head["kinds"], strict=True):
        if kind != _kind(metric):
            raise UsageError(
                f"gather: {name!r} is {kind} on worker {worker} and {_kind(metric)} on this one; use the same settings "
                "on every worker"
            )
    kinds = [(getattr(torch, dtype), shape) for dtype, shape in head["states"]]
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
