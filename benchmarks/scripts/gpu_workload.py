"""ResNet-50 and BERT-base as the GPU benchmark trains them, and how a step is timed: the same for every contestant.

Both are modules that return their loss. A contestant's script prepares model and optimizer in its own way and calls
`serve`, which warms up and then measures once for every line on stdin, so that contestants that live side by side can
take turns without being compiled again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.profiler import ProfilerActivity, profile

VOCABULARY = 30522


class ResNet50(nn.Module):
    """Images and labels to the loss."""

    def __init__(self) -> None:
        super().__init__()
        from torchvision.models import resnet50  # type: ignore[import-not-found]

        self.net = resnet50()

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.net(images), labels)


class Bert(nn.Module):
    """Tokens to the loss of naming them again, over all positions."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import BertConfig, BertForMaskedLM  # type: ignore[import-not-found]

        self.net = BertForMaskedLM(BertConfig(attn_implementation="sdpa"))

    def forward(self, tokens: Tensor) -> Tensor:
        return F.cross_entropy(self.net(tokens).logits.view(-1, VOCABULARY), tokens.view(-1))


@dataclass(frozen=True)
class Task:
    """A model, one batch for it, and how long to look at it."""

    model: Callable[[], nn.Module]
    batch: Callable[[int, torch.device], tuple[Tensor, ...]]
    batch_size: int
    warm_up: int
    steps: int


TASKS = {
    "resnet50": Task(
        model=ResNet50,
        batch=lambda size, device: (
            torch.randn(size, 3, 224, 224, device=device),
            torch.randint(1000, (size,), device=device),
        ),
        batch_size=256,
        warm_up=8,
        steps=20,
    ),
    "bert": Task(
        model=Bert,
        batch=lambda size, device: (torch.randint(VOCABULARY, (size, 128), device=device),),
        batch_size=128,
        warm_up=5,
        steps=10,
    ),
}


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """What every contestant's command line has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=TASKS, required=True)
    parser.add_argument("--batch-size", type=int, help="Default: what the task says.")
    parser.add_argument("--kernels", type=Path, help="A folder: write there what each kernel of a step takes.")
    return parser


def task_of(options: argparse.Namespace) -> tuple[Task, int]:
    """The task and its batch size, as the command line says."""
    task = TASKS[options.model]
    return task, options.batch_size or task.batch_size


def seconds_of(step: Callable[[], Tensor], device: torch.device) -> float:
    """One step, until the device is done with it."""
    if device.type != "cuda":
        begin = time.perf_counter()
        step()
        return time.perf_counter() - begin
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begun.record()
    step()
    ended.record()
    torch.cuda.synchronize()
    return float(begun.elapsed_time(ended)) / 1000


def serve(
    task: Task, step: Callable[[], Tensor], batch_size: int, device: torch.device, options: argparse.Namespace
) -> None:
    """Warm up, say so, then answer every line on stdin with the items per second of the median step.

    The kernels are written down after the first measurement.
    """
    begin = time.perf_counter()
    for _ in range(task.warm_up):
        loss = step()
    answer(warm_up_s=time.perf_counter() - begin, loss=loss.item())
    for _ in sys.stdin:
        for _ in range(2):  # the device may have been idle, or somebody else's
            step()
        seconds = [seconds_of(step, device) for _ in range(task.steps)]
        memory = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
        if options.kernels is not None and device.type == "cuda":
            write_kernels(step, options.kernels / f"{options.model}-{os.getpid()}.txt")  # before the next one's turn
            options.kernels = None
        answer(items_per_s=batch_size / statistics.median(seconds), raw_s=seconds, memory_bytes=memory)


def write_kernels(step: Callable[[], Tensor], path: Path) -> None:
    """What the kernels of 5 steps take, most first."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for _ in range(5):
            step()
        torch.cuda.synchronize()
    path.parent.mkdir(parents=True, exist_ok=True)
    table = seen.key_averages().table(sort_by="self_device_time_total", row_limit=60, max_name_column_width=100)
    path.write_text(f"{' '.join(sys.argv)}\n{table}\n")


def answer(**figures: object) -> None:
    print("ANSWER", json.dumps(figures), flush=True)
