"""Callbacks that scripts ask for by name: checkpoints, schedules, early stops, rates on a plateau, VisualDL."""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
from typing import Any

import numpy as np

from fleet.errors import UsageError
from fleet_paddle.hapi.callbacks import Callback, Logs
from fleet_paddle.imperative.optimizer.lr import LRScheduler as Schedule
from fleet_paddle.imperative.parallel import get_rank

__all__ = ["EarlyStopping", "LRScheduler", "ModelCheckpoint", "ReduceLROnPlateau", "VisualDL"]


class ModelCheckpoint(Callback):
    """Saves the model below `save_dir` every `save_freq` epochs, as 0, 1, ..., and at the end as `final`."""

    def __init__(self, save_freq: int = 1, save_dir: str | None = None) -> None:
        super().__init__()
        if save_freq < 1:
            raise UsageError(f"ModelCheckpoint: save_freq must be >= 1, got {save_freq}")
        self.save_freq, self.save_dir = save_freq, save_dir

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:  # noqa: ARG002
        if epoch % self.save_freq == 0:
            self._save(str(epoch))

    def on_train_end(self, logs: Logs | None = None) -> None:  # noqa: ARG002
        self._save("final")

    def _save(self, name: str) -> None:
        if self.save_dir and get_rank() == 0:
            path = os.path.abspath(os.path.join(self.save_dir, name))
            print(f"save checkpoint at {path}")
            self.model.save(path)


class LRScheduler(Callback):
    """Steps the optimizer's schedule, if it has one: after every batch, or after every epoch."""

    def __init__(self, by_step: bool = True, by_epoch: bool = False) -> None:
        super().__init__()
        if by_step == by_epoch:
            raise UsageError(f"LRScheduler: one of by_step and by_epoch must be True, got {by_step} and {by_epoch}")
        self.by_step, self.by_epoch = by_step, by_epoch

    def on_train_batch_end(self, step: int, logs: Logs | None = None) -> None:  # noqa: ARG002
        if self.by_step:
            self._step()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:  # noqa: ARG002
        if self.by_epoch:
            self._step()

    def _step(self) -> None:
        schedule = getattr(self.model._optimizer, "scheduler", None)
        if isinstance(schedule, Schedule):
            schedule.step()


class _Watching(Callback):
    """Looks at one measure of what is evaluated; less is better unless its name says accuracy or AUC."""

    def __init__(self, monitor: str, mode: str, min_delta: float) -> None:
        super().__init__()
        if mode not in ("auto", "min", "max"):
            raise UsageError(f"{type(self).__name__}: mode must be 'auto', 'min' or 'max', got {mode!r}")
        is_max = mode == "max" or (mode == "auto" and ("acc" in monitor or monitor.startswith("auc")))
        self.monitor, self.min_delta, self._sign = monitor, abs(min_delta), -1.0 if is_max else 1.0
        self.best_value = self._sign * math.inf

    def _value(self, logs: Logs | None) -> float:
        if not logs or self.monitor not in logs:
            known = ", ".join(self.params.get("metrics", [])) or "nothing"
            raise UsageError(f"{type(self).__name__}: there is no {self.monitor!r} to monitor; evaluated is {known}")
        return float(np.asarray(logs[self.monitor]).reshape(-1)[0])

    def _is_better(self, value: float) -> bool:
        return self._sign * value < self._sign * self.best_value - self.min_delta


class EarlyStopping(_Watching):
    """Ends training when `monitor` of what is evaluated has not become better `patience` times.

    With `save_best_model` and a `save_dir` of `fit`, the best is there as `best_model`.
    """

    def __init__(
        self,
        monitor: str = "loss",
        mode: str = "auto",
        patience: int = 0,
        verbose: int = 1,
        min_delta: float = 0,
        baseline: float | None = None,
        save_best_model: bool = True,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        self.patience, self.verbose, self.save_best_model = patience, verbose, save_best_model
        self._baseline = self.best_value if baseline is None else baseline

    def on_train_begin(self, logs: Logs | None = None) -> None:  # noqa: ARG002
        self.wait_epoch, self.best_value = 0, self._baseline

    def on_eval_end(self, logs: Logs | None = None) -> None:
        value = self._value(logs)
        if self._is_better(value):
            self.best_value, self.wait_epoch = value, 0
            folder = self.params.get("save_dir")
            if self.save_best_model and folder is not None and get_rank() == 0:
                self.model.save(os.path.join(folder, "best_model"))
        else:
            self.wait_epoch += 1
        if self.wait_epoch > 0 and self.wait_epoch >= self.patience:
            self.model.stop_training = True
            if self.verbose and get_rank() == 0:
                print(
                    f"EarlyStopping: {self.monitor} is {value:.6g}, the best was {self.best_value:.6g}; training ends"
                )


class ReduceLROnPlateau(_Watching):
    """Multiplies the rate by `factor` when `monitor` of what is evaluated has not become better `patience` times."""

    def __init__(
        self,
        monitor: str = "loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 1,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        if not 0 < factor < 1:
            raise UsageError(f"ReduceLROnPlateau: factor must be between 0 and 1, got {factor}")
        self.factor, self.patience, self.verbose = factor, patience, verbose
        self.cooldown, self.min_lr = cooldown, min_lr
        self._cooling = self._wait = 0

    def on_eval_end(self, logs: Logs | None = None) -> None:
        value = self._value(logs)
        if self._cooling:
            self._cooling, self._wait = self._cooling - 1, 0
        if self._is_better(value):
            self.best_value, self._wait = value, 0
        elif not self._cooling:
            self._wait += 1
            if self._wait >= self.patience:
                self._reduce()

    def _reduce(self) -> None:
        optimizer = self.model._optimizer
        before = optimizer.get_lr()
        if before > self.min_lr:
            rate = max(before * self.factor, self.min_lr)
            optimizer.set_lr(rate)
            if self.verbose and get_rank() == 0:
                print(f"ReduceLROnPlateau: {self.monitor} stays; the learning rate is {rate:.6g}")
            self._cooling, self._wait = self.cooldown, 0


class VisualDL(Callback):
    """Writes loss and metrics of every step for VisualDL, which must be installed."""

    def __init__(self, log_dir: str) -> None:
        super().__init__()
        if importlib.util.find_spec("visualdl") is None:
            raise UsageError("callbacks.VisualDL needs visualdl, which is not installed: pip install visualdl")
        self.log_dir = log_dir
        self._writer: Any = None
        self._steps = {"train": 0, "eval": 0}

    def on_train_batch_end(self, step: int, logs: Logs | None = None) -> None:  # noqa: ARG002
        self._write("train", logs or {})

    def on_eval_end(self, logs: Logs | None = None) -> None:
        self._write("eval", logs or {})

    def on_train_end(self, logs: Logs | None = None) -> None:  # noqa: ARG002
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, what: str, logs: Logs) -> None:
        if get_rank() != 0:
            return
        if self._writer is None:
            self._writer = importlib.import_module("visualdl").LogWriter(self.log_dir)
        for name in self.params.get("metrics", []):
            if name in logs:
                value = float(np.asarray(logs[name]).reshape(-1)[0])
                self._writer.add_scalar(tag=f"{what}/{name}", step=self._steps[what], value=value)
        self._steps[what] += 1
