"""One batch of a `Model`: forward, loss, backward, metrics. With several workers, measures are of all their samples."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from fleet.errors import NotReadyError
from fleet_paddle.imperative import amp
from fleet_paddle.imperative.creation import to_tensor
from fleet_paddle.imperative.tensor import Tensor, as_paddle

_CASTING = ("level", "custom_white_list", "custom_black_list")
"""Settings of mixed precision that concern the forward pass; the others are the scale's."""


class Batches:
    """What a `Model` was prepared with, used one batch at a time."""

    def __init__(self, network: Any, optimizer: Any, loss: Any, metrics: list[Any], amp_configs: Any) -> None:
        self.network, self.optimizer, self.loss, self.metrics = network, optimizer, loss, metrics
        settings = {"level": amp_configs} if isinstance(amp_configs, str) else dict(amp_configs or {"level": "O0"})
        casting = {"level": "O1"} | {name: settings.pop(name) for name in _CASTING if name in settings}
        is_whole = casting["level"] == "O0"
        self._cast: Any = nullcontext if is_whole else partial(amp.auto_cast, **casting)
        self._scaler = None if is_whole else amp.GradScaler(**settings)
        self.left: int | None = None
        """How many samples of a pass are not measured yet: the last batches of several workers repeat some."""

    def train(self, inputs: list[Any], labels: list[Any], update: bool) -> tuple[list[Any], list[Any]]:
        """Losses and metrics of a batch that is trained on."""
        if self.optimizer is None or self.loss is None:
            raise NotReadyError("Model: training needs an optimizer and a loss; call prepare(optimizer, loss) first")
        self.network.train()
        with self._cast():
            outputs = _listed(self.network(*inputs))
            losses = _listed(self.loss(*outputs, *labels))
        total = losses[0] if len(losses) == 1 else sum(losses[1:], losses[0])
        (total if self._scaler is None else self._scaler.scale(total)).backward()
        if update:
            if self._scaler is None:
                self.optimizer.step()
            else:
                self._scaler.minimize(self.optimizer)
            self.optimizer.clear_grad()
        return [one.numpy() for one in losses], self._measured(outputs, labels)

    @torch.no_grad()
    def evaluate(self, inputs: list[Any], labels: list[Any]) -> tuple[list[Any], list[Any]]:
        """Losses and metrics of a batch that is not."""
        self.network.eval()
        with self._cast():
            outputs = _listed(self.network(*inputs))
            losses = [] if self.loss is None else _listed(self.loss(*outputs, *labels))
        if self.left is not None:
            outputs, labels = self._of_all(outputs + labels, len(outputs))
        return [one.numpy() for one in losses], self._measured(outputs, labels)

    @torch.no_grad()
    def predict(self, inputs: list[Any]) -> list[Any]:
        """What the network gives, as arrays."""
        self.network.eval()
        with self._cast():
            outputs = _listed(self.network(*inputs))
        if self.left is not None:
            outputs, _ = self._of_all(outputs, len(outputs))
        return [one.numpy() for one in outputs]

    def _measured(self, outputs: list[Any], labels: list[Any]) -> list[Any]:
        found = []
        for metric in self.metrics:
            given = metric.compute(*outputs, *labels)
            several = given if isinstance(given, list | tuple) else [given]
            found.append(metric.update(*(one.numpy() if isinstance(one, Tensor) else one for one in several)))
        return found

    def _of_all(self, fields: list[torch.Tensor], num_outputs: int) -> tuple[list[Any], list[Any]]:
        """Fields of all workers' batches, in the order of the dataset, without what was repeated to fill them up."""
        assert self.left is not None
        gathered = []
        for one in fields:
            each = [torch.empty_like(one) for _ in range(dist.get_world_size())]
            dist.all_gather(each, one.contiguous())
            gathered.append(as_paddle(torch.stack(each, 1).flatten(0, 1)[: self.left]))
        self.left -= len(gathered[0])
        return gathered[:num_outputs], gathered[num_outputs:]


def tensors(given: Any) -> list[Any]:
    """What a script gave for inputs or labels, as a list of tensors."""
    if given is None:
        return []
    return [one if isinstance(one, torch.Tensor) else to_tensor(one) for one in _listed(given)]


def _listed(given: Any) -> list[Any]:
    if isinstance(given, np.ndarray):
        return [given]
    return list(given) if isinstance(given, list | tuple) else [given]
