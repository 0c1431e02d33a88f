"""`Callback`: what is called while a `Model` trains, evaluates and predicts; and the list of those that a call has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["Callback"]

Logs = dict[str, Any]


class Callback:
    """Something to do at certain moments; a subclass writes the methods that it wants.

    `self.model` is the Model; `self.params` has batch_size, epochs, steps, verbose, metrics and save_dir. Logs have
    the loss and the metrics by name, the step and the size of the batch.
    """

    model: Any = None
    params: Logs

    def __init__(self) -> None:
        self.params = {}

    def set_params(self, params: Logs) -> None:
        """Told before anything begins."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Told before anything begins."""
        self.model = model

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Before the first epoch."""

    def on_train_end(self, logs: Logs | None = None) -> None:
        """After the last epoch."""

    def on_eval_begin(self, logs: Logs | None = None) -> None:
        """Before the first batch that is evaluated."""

    def on_eval_end(self, logs: Logs | None = None) -> None:
        """After the last one."""

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        """Before the first batch to predict for."""

    def on_predict_end(self, logs: Logs | None = None) -> None:
        """After the last one."""

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Before an epoch of training."""

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """After it, before what is evaluated then."""

    def on_train_batch_begin(self, step: int, logs: Logs | None = None) -> None:
        """Before a batch of training."""

    def on_train_batch_end(self, step: int, logs: Logs | None = None) -> None:
        """After it."""

    def on_eval_batch_begin(self, step: int, logs: Logs | None = None) -> None:
        """Before a batch that is evaluated."""

    def on_eval_batch_end(self, step: int, logs: Logs | None = None) -> None:
        """After it."""

    def on_predict_batch_begin(self, step: int, logs: Logs | None = None) -> None:
        """Before a batch to predict for."""

    def on_predict_batch_end(self, step: int, logs: Logs | None = None) -> None:
        """After it."""


class CallbackList:
    """The callbacks of one call of `fit`, `evaluate` or `predict`, in order."""

    def __init__(self, callbacks: Iterable[Any], model: Any, params: Logs) -> None:
        self.callbacks = list(callbacks)
        for one in self.callbacks:
            one.set_model(model)
            one.set_params(params)

    def begin(self, what: str, logs: Logs | None = None) -> None:
        """`on_train_begin`, `on_eval_begin` or `on_predict_begin`."""
        for one in self.callbacks:
            getattr(one, f"on_{what}_begin")(logs)

    def end(self, what: str, logs: Logs | None = None) -> None:
        """The same for the end."""
        for one in self.callbacks:
            getattr(one, f"on_{what}_end")(logs)

    def begin_epoch(self, epoch: int) -> None:
        """`on_epoch_begin`."""
        for one in self.callbacks:
            one.on_epoch_begin(epoch, {})

    def end_epoch(self, epoch: int, logs: Logs) -> None:
        """`on_epoch_end`."""
        for one in self.callbacks:
            one.on_epoch_end(epoch, logs)

    def begin_batch(self, what: str, step: int, logs: Logs) -> None:
        """`on_train_batch_begin` and its like."""
        for one in self.callbacks:
            getattr(one, f"on_{what}_batch_begin")(step, logs)

    def end_batch(self, what: str, step: int, logs: Logs) -> None:
        """`on_train_batch_end` and its like."""
        for one in self.callbacks:
            getattr(one, f"on_{what}_batch_end")(step, logs)
