"""What train.py knows of its run: how far it is, how fast, how good; on the first worker also for others to see."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from curves import Curves
from tasks import Task

import fleet
from fleet.data import Batch
from fleet.metrics import AUC

EVERY = 10
"""The bar and the curves are told at so many steps."""
WINDOW = 50
"""The AUC beside the bar is that of so many batches, each scored before it was trained on."""
T = TypeVar("T")


class Watch:
    """Counts steps and samples, keeps the curves, and knows when nothing gets better any more."""

    def __init__(self, args: argparse.Namespace, task: Task) -> None:
        self.step = self.samples = self.misses = 0
        self.seconds, self.best = 0.0, float("-inf")
        self._began_at = 0.0
        self.found: dict[str, float] = {}
        self._args, self._task = args, task
        self._evaluated_at = -1
        self._recent = AUC()
        self._curves: Curves | None = None

    def state_dict(self) -> dict[str, Any]:
        """For the checkpoint: a run that goes on counts on."""
        return {name: getattr(self, name) for name in ("step", "samples", "misses", "seconds", "best", "found")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.__dict__.update(state)

    @property
    def rate(self) -> float:
        """Samples a second, of all workers: they make the same number of steps."""
        return self.samples / self._elapsed() if self.samples else 0.0

    @property
    def curves(self) -> Curves:
        """Of the first worker."""
        if self._curves is None:
            self._curves = Curves(self._args.out, self.step, list(self._task.metrics))
        return self._curves

    def over(self, batches: Iterable[T], shard: fleet.data.Shard) -> Iterator[T]:
        """The batches of an epoch, with a bar beside them."""
        is_first = fleet.is_first_worker()
        label = f"epoch {shard.epoch}"
        self._began_at = time.perf_counter()
        self._bar = fleet.progress(batches, label, total=_length(shard), initial=shard.num_done, enabled=is_first)
        yield from self._bar

    def note(self, loss: torch.Tensor, outputs: torch.Tensor, batch: Batch) -> None:
        """A batch was trained on."""
        self.step += 1
        self.samples += batch.size * fleet.worker_num()
        if not fleet.is_first_worker():
            return
        if self._task.seen is not None:
            self._recent.update(*self._task.seen(outputs, batch))
        if self.step % EVERY == 0:
            values = {"loss": loss.item()}
            if self._task.seen is not None:
                values["AUC"] = self._recent.compute()
            self._bar.show(**values, **{"samples/s": f"{self.rate:,.0f}"})
            self.curves.add(self.step, samples=self.samples, seconds=self._elapsed(), **values)
        if self.step % WINDOW == 0:
            self._recent.reset()

    def is_time(self) -> bool:
        """Whether to evaluate now, in the middle of an epoch."""
        every = self._args.eval_every
        return every is not None and self.step % every == 0

    def pause(self) -> None:
        """Stop the clock: evaluations and saves are no training."""
        self.seconds, self._began_at = self._elapsed(), 0.0

    def go_on(self) -> None:
        """Training again."""
        self._began_at = time.perf_counter()

    def is_evaluated(self) -> bool:
        """Whether there was an evaluation at this step."""
        return self._evaluated_at == self.step

    def evaluated(self, found: dict[str, float]) -> None:
        """Note how good the model is on what it was not trained on."""
        self.found, self._evaluated_at = found, self.step
        value = found[self._task.first]
        self.misses = 0 if value > self.best else self.misses + 1
        self.best = max(self.best, value)
        if fleet.is_first_worker():
            values = {f"test {name}": one for name, one in found.items()}
            self.curves.add(self.step, samples=self.samples, seconds=self.seconds, **values)
            text = ", ".join(f"{name} {one:.4f}" for name, one in found.items())
            print(f"step {self.step}: {text} on unseen samples")

    def is_over(self) -> bool:
        """Whether `--early-stop` evaluations in a row were no better than the best."""
        patience = self._args.early_stop
        return patience is not None and self.misses >= patience

    def _elapsed(self) -> float:
        return self.seconds + (time.perf_counter() - self._began_at if self._began_at else 0.0)


def _length(shard: fleet.data.Shard) -> int | None:
    try:
        return len(shard)
    except TypeError:  # of text nobody knows how many lines it has
        return None
