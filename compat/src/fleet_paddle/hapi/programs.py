"""One batch of a `Model` after `enable_static()`: the network, made for programs, is called once, and then run.

The default main program trains; what evaluates and what predicts are copies of it, taken before the optimizer adds to
it. Metrics are computed of what is fetched, as for tensors.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

import fleet_programs as static
from fleet.errors import NotReadyError, NotSupportedError, UsageError
from fleet_paddle.hapi.spec import InputSpec
from fleet_paddle.imperative.creation import to_tensor
from fleet_paddle.imperative.parallel import get_world_size
from fleet_paddle.imperative.tensor import Tensor


class ProgramBatches:
    """What a `Model` was prepared with, as programs; it is asked as `Batches` is."""

    left: int | None = None

    def __init__(
        self,
        network: Any,
        optimizer: Any,
        loss: Any,
        metrics: list[Any],
        inputs: Sequence[InputSpec],
        labels: Sequence[InputSpec],
    ) -> None:
        if not inputs or (loss is not None and not labels):
            raise UsageError("Model: after enable_static() give inputs and labels, lists of paddle.static.InputSpec")
        if get_world_size() > 1:
            raise NotSupportedError("Model trains programs with one worker; leave enable_static() out for several")
        self.network, self.optimizer, self.loss, self.metrics = network, optimizer, loss, metrics
        self._executor = static.Executor()
        self._main = static.default_main_program()
        network.train()
        self._fed = [_data(one, f"input_{place}") for place, one in enumerate(inputs)]
        self._outputs = _listed(network(*self._fed))
        self._predicting = self._main.clone(for_test=True)
        self._losses: list[Any] = []
        self._labels: list[Any] = []
        if loss is not None:
            self._labels = [_data(one, f"label_{place}") for place, one in enumerate(labels)]
            self._losses = _listed(loss(*self._outputs, *self._labels))
        self._evaluating = self._main.clone(for_test=True)
        if optimizer is not None and self._losses:
            total = self._losses[0] if len(self._losses) == 1 else sum(self._losses[1:], self._losses[0])
            optimizer.minimize(total)
        self._executor.run(static.default_startup_program())

    def train(self, inputs: list[Any], labels: list[Any], update: bool) -> tuple[list[Any], list[Any]]:
        """Losses and metrics of a batch that is trained on."""
        if self.optimizer is None or self.loss is None:
            raise NotReadyError("Model: training needs an optimizer and a loss; call prepare(optimizer, loss) first")
        if not update:
            raise NotSupportedError("Model: gradients of several batches are added for tensors alone; use larger ones")
        return self._run(self._main, inputs, labels)

    def evaluate(self, inputs: list[Any], labels: list[Any]) -> tuple[list[Any], list[Any]]:
        """Losses and metrics of a batch that is not."""
        return self._run(self._evaluating, inputs, labels)

    def predict(self, inputs: list[Any]) -> list[Any]:
        """What the network gives, as arrays."""
        names = [one.name for one in self._outputs]
        return self._executor.run(self._predicting, feed=_feed(self._fed, inputs), fetch_list=names)

    def save(self, path: str) -> None:
        """Parameters and the optimizer's state, as `static.save` has them."""
        static.save(self._main, path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """What `save` wrote."""
        static.load(self._main, os.fspath(path), self._executor)

    def _run(self, program: Any, inputs: list[Any], labels: list[Any]) -> tuple[list[Any], list[Any]]:
        names = [one.name for one in (*self._losses, *self._outputs)]
        feed = _feed([*self._fed, *self._labels], [*inputs, *labels])
        found = self._executor.run(program, feed=feed, fetch_list=names)
        losses = [np.asarray(one).reshape(-1)[:1] for one in found[: len(self._losses)]]
        outputs = [to_tensor(np.asarray(one)) for one in found[len(self._losses) :]]
        measured = []
        for metric in self.metrics:
            given = metric.compute(*outputs, *labels)
            several = given if isinstance(given, list | tuple) else [given]
            measured.append(metric.update(*(one.numpy() if isinstance(one, Tensor) else one for one in several)))
        return losses, measured


def _data(spec: InputSpec, name: str) -> Any:
    sizes = [None if one < 0 else one for one in spec.shape]
    return static.data(spec.name or name, sizes, spec.dtype)


def _feed(variables: Sequence[Any], values: Sequence[Any]) -> dict[str, Any]:
    return {one.name: np.asarray(value) for one, value in zip(variables, values, strict=True)}


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]
