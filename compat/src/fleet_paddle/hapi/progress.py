"""`ProgBarLogger`: what `fit`, `evaluate` and `predict` print."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from fleet.errors import UsageError
from fleet_paddle.hapi.callbacks import Callback, Logs
from fleet_paddle.imperative.parallel import get_rank

__all__ = ["ProgBarLogger"]

_WIDTH = 20


class ProgBarLogger(Callback):
    """Prints loss and metrics every `log_freq` steps: with `verbose` 2 a line each time, with 1 one that is rewritten.

    The loss is that of the step, metrics are those of all steps of the epoch so far. Worker 0 alone prints. A class
    made from this one may put more into `logs` and, once training or evaluation has begun, the names to print into
    `train_metrics` or `eval_metrics`.
    """

    def __init__(self, log_freq: int = 1, verbose: int = 2) -> None:
        super().__init__()
        if log_freq < 1:
            raise UsageError(f"ProgBarLogger: log_freq must be >= 1, got {log_freq}")
        self.log_freq, self.verbose = log_freq, verbose
        self.train_metrics: list[str] = []
        self.eval_metrics: list[str] = []
        self._steps: int | None = None
        self._began = 0.0

    @property
    def _speaks(self) -> bool:
        return bool(self.verbose) and get_rank() == 0

    def on_train_begin(self, logs: Logs | None = None) -> None:  # noqa: ARG002
        self.train_metrics = list(self.params.get("metrics", []))
        if self._speaks:
            print("The loss is that of the step; a metric is that of all steps of the epoch so far.")

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:  # noqa: ARG002
        self._start(self.params.get("steps"))
        if self._speaks and self.params.get("epochs"):
            print(f"Epoch {epoch + 1}/{self.params['epochs']}")

    def on_train_batch_end(self, step: int, logs: Logs | None = None) -> None:
        self._show(step, logs or {}, self.train_metrics)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:  # noqa: ARG002
        self._finish(logs or {}, self.train_metrics)

    def on_eval_begin(self, logs: Logs | None = None) -> None:
        self._start((logs or {}).get("steps"))
        self.eval_metrics = list(self.params.get("metrics", []))
        if self._speaks:
            print("Eval begin...")

    def on_eval_batch_end(self, step: int, logs: Logs | None = None) -> None:
        self._show(step, logs or {}, self.eval_metrics)

    def on_eval_end(self, logs: Logs | None = None) -> None:
        self._finish(logs or {}, self.eval_metrics)
        if self._speaks:
            print(f"Eval samples: {(logs or {}).get('samples', 0)}")

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        self._start((logs or {}).get("steps"))
        if self._speaks:
            print("Predict begin...")

    def on_predict_batch_end(self, step: int, logs: Logs | None = None) -> None:
        self._show(step, logs or {}, [])

    def on_predict_end(self, logs: Logs | None = None) -> None:
        self._finish(logs or {}, [])
        if self._speaks:
            print(f"Predict samples: {(logs or {}).get('samples', 0)}")

    def _start(self, steps: int | None) -> None:
        self._steps, self._began = steps, time.monotonic()
        self._shown = -1

    def _show(self, step: int, logs: Logs, metrics: list[str]) -> None:
        if self._speaks and (step + 1) % self.log_freq == 0:
            self._line(step, logs, metrics)

    def _finish(self, logs: Logs, metrics: list[str]) -> None:
        if self._speaks and logs.get("step", -1) > self._shown:
            self._line(logs["step"], logs, metrics)
        if self._speaks and self.verbose == 1:
            print()

    def _line(self, step: int, logs: Logs, metrics: list[str]) -> None:
        self._shown = step
        each_ms = (time.monotonic() - self._began) / (step + 1) * 1000
        values = [f"{name}: {_text(logs[name])}" for name in metrics if name in logs]
        text = " - ".join([f"step {self._count(step + 1)}", *values, f"{each_ms:.0f}ms/step"])
        if self.verbose == 1:
            sys.stdout.write(f"\r{text}")
            sys.stdout.flush()
        else:
            print(text, flush=True)

    def _count(self, done: int) -> str:
        if self._steps is None:
            return str(done)
        text = f"{done:>{len(str(self._steps))}}/{self._steps}"
        if self.verbose != 1:
            return text
        full = _WIDTH * done // max(self._steps, 1)
        return f"{text} [{'=' * full}{'.' * (_WIDTH - full)}]"


def _text(value: Any) -> str:
    return " ".join(f"{float(one):.4f}" for one in np.asarray(value, np.float64).reshape(-1))
