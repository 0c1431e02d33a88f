"""What a run shows: bar, loss, throughput, MFU, memory, TensorBoard, and one line of JSON at the end."""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

import fleet
from common.ahead import Ahead
from common.folder import begin
from common.peaks import peak_flops
from fleet.errors import UsageError


class Watch:
    """Counts steps and what they trained on. For `fleet.Checkpoint(extras=...)`: a run that goes on counts on.

    `items` is what a step trains on, such as "images"; tokens are counted beside them where there are any.
    """

    def __init__(self, args: argparse.Namespace, items: str, describes: Mapping[str, object]) -> None:
        self.step = 0
        self.loss = float("nan")
        self._args, self._items, self._describes = args, items, dict(describes)
        self._peak = peak_flops(args.peak_tflops, fleet.device)
        self._begun_at: float | None = None
        self._paused_s = 0.0
        self._seconds = self._num_items = self._num_tokens = self._flops = self._timed_steps = 0.0
        self._board: Any = None
        begin(args.out, args.resume, self._describes)

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.step, "loss": self.loss}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.step, self.loss = int(state["step"]), float(state["loss"])

    def over(self, batches: Ahead) -> Iterator[Any]:
        """The batches that are left of --steps, epoch by epoch, with a bar beside them."""
        # Kernels are chosen and compiled in the first steps; of a short run half of them count.
        self._warm_up = self.step + min(self._args.warm_up, (self._args.steps - self.step) // 2)
        if fleet.is_first_worker():
            self._board = _board(self._args, self.step)
        self._bar = fleet.progress(
            self._left(batches),
            str(self._describes["example"]),
            total=self._args.steps,
            initial=min(self.step, self._args.steps),
            enabled=fleet.is_first_worker(),
        )
        yield from self._bar
        self._stop_clock()

    def _left(self, batches: Ahead) -> Iterator[Any]:
        while self.step < self._args.steps:
            before = self.step
            for batch in batches:
                if self.step == self._warm_up:
                    self._begun_at = _now()
                yield batch
                if self.step >= self._args.steps:
                    return
            if self.step == before:
                raise UsageError("an epoch of this data has no whole batch; give more data or a smaller --batch-size")

    def note(self, loss: torch.Tensor, items: float, tokens: float, flops: float) -> None:
        """A batch was trained on; `items`, `tokens` and `flops` are this worker's."""
        self.step += 1
        if self._begun_at is not None:
            self._timed_steps += 1
            self._num_items += items
            self._num_tokens += tokens
            self._flops += flops
        is_last = self.step == self._args.steps
        if is_last or self.step % self._args.show_every == 0:
            self.loss = loss.item()
            self._show()

    def _show(self) -> None:
        if not fleet.is_first_worker():
            return
        values = {"loss": self.loss}
        if self._begun_at is not None:
            seconds = _now() - self._begun_at - self._paused_s
            values |= {name: value for name, value in self._speed(seconds).items() if value is not None}
        shown = {name: f"{value:,.0f}" if value >= 100 else f"{value:.4g}" for name, value in values.items()}
        self._bar.show(**shown)
        self._tell(values)

    def is_time(self, every: int | None) -> bool:
        """Whether to save or evaluate now; what is done at the end anyway is not."""
        return every is not None and self.step % every == 0 and self.step < self._args.steps

    def is_unsaved(self, saved: fleet.Checkpoint) -> bool:
        """Whether the end of the run is still to be saved."""
        return self.step > saved.step and not self._args.measure

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Inside, nothing is trained: the clock of the speed stands."""
        begun = _now()
        yield
        if self._begun_at is not None:
            self._paused_s += _now() - begun

    def evaluated(self, found: Mapping[str, float]) -> None:
        """Say how good the model is on what it was not trained on."""
        if fleet.is_first_worker():
            if not found:
                return
            text = ", ".join(f"{name} {value:.4f}" for name, value in found.items())
            print(f"step {self.step}: {text}", flush=True)
            self._tell({f"held-out {name}": value for name, value in found.items()})

    def finish(self, found: Mapping[str, float]) -> None:
        """Print the line of JSON, and write it to result.json in --out."""
        if not fleet.is_first_worker():
            return
        if self._peak is None:
            print(f"no MFU: the peak of {_device_name()} is not in common/peaks.py; --peak-tflops gives it")
        result = {
            **self._describes,
            "workers": fleet.worker_num(),
            "device": _device_name(),
            "batch_size": self._args.batch_size,
            "steps": self.step,
            "timed_steps": int(self._timed_steps),
            "loss": self.loss,
            **found,
            **self._speed(self._seconds),
            "memory_bytes": _memory(),
        }
        text = json.dumps(result)
        print(text, flush=True)
        (self._args.out / "result.json").write_text(text + "\n")
        if self._board is not None:
            self._board.close()

    def _speed(self, seconds: float) -> dict[str, float | None]:
        """Of all workers, which make the same number of steps; MFU is that of this worker's card."""
        if not seconds:
            return {f"{self._items}_per_s": None, "mfu": None}
        rate = fleet.worker_num() / seconds
        speed: dict[str, float | None] = {f"{self._items}_per_s": self._num_items * rate}
        if self._num_tokens:
            speed["tokens_per_s"] = self._num_tokens * rate
        speed["tflops"] = self._flops / seconds / 1e12
        speed["mfu"] = self._flops / seconds / self._peak if self._peak is not None else None
        return speed

    def _stop_clock(self) -> None:
        if self._begun_at is not None:
            self._seconds = _now() - self._begun_at - self._paused_s

    def _tell(self, values: Mapping[str, float]) -> None:
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, self.step)


def _now() -> float:
    """The time at which the device has done what it was told."""
    if fleet.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def _memory() -> int:
    """The most that this worker has had: of the GPU's memory, or of the machine's."""
    if fleet.device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _device_name() -> str:
    return torch.cuda.get_device_name(fleet.device) if fleet.device.type == "cuda" else fleet.device.type


def _board(args: argparse.Namespace, step: int) -> Any:
    """A writer of TensorBoard's, or None where that is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        print("no TensorBoard log: pip install 'torch-fleet[curves]'")
        return None
    return SummaryWriter(args.out / "tensorboard", purge_step=step or None)
