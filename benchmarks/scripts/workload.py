"""The two models that the collective benchmarks train, and the loop that times them: the same for every system.

A system's script wraps model and optimizer in its own way and calls `train`. As in the peers' own MLP script the
weights come from seed 0 and the batches from the worker's index, so systems that do the same work report the same loss.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

WARM_UP, NUM_BATCHES = 5, 20
VOCABULARY, SEQUENCE, WIDTH = 8192, 64, 256


class Transformer(nn.Module):
    """Predicts each position's token from those before it: 4 layers, 8 heads, feed-forward 1024."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, nhead=8, dim_feedforward=1024, dropout=0.0, batch_first=True)
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(0.02 * torch.randn(SEQUENCE, WIDTH))
        self.layers = nn.TransformerEncoder(layer, num_layers=4, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(SEQUENCE), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.layers(self.tokens(tokens) + self.positions, mask=self.mask, is_causal=True)
        logits: Tensor = self.out(hidden)
        return logits


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10))


@dataclass(frozen=True)
class Workload:
    """A model, the optimizer one would take, and where one worker's batches come from."""

    batch_size: int
    model: Callable[[], nn.Module]
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
    batch: Callable[[], tuple[Tensor, Tensor]]


MLP = Workload(
    batch_size=256,
    model=mlp,
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
    batch=lambda: (torch.randn(256, 1024), torch.randint(10, (256,))),
)
WORKLOADS = {
    "mlp": MLP,
    "mlp-momentum": replace(MLP, optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9)),
    "transformer": Workload(
        batch_size=16,
        model=Transformer,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=3e-4),
        batch=lambda: (torch.randint(VOCABULARY, (16, SEQUENCE)), torch.randint(VOCABULARY, (16, SEQUENCE))),
    ),
}


def sent_bytes() -> int:
    """Bytes that left this host through its interfaces; loopback is not one."""
    counters = Path("/sys/class/net").glob("*/statistics/tx_bytes")
    return sum(int(counter.read_text()) for counter in counters if counter.parts[-3] != "lo")


def train(
    workload: Workload,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    steps: int,
    out: Path,
    backward: Callable[[Tensor], object] = Tensor.backward,
) -> None:
    """Train, and leave what `steps` steps after the warm-up took as `worker<index>.json` in the folder `out`."""
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    torch.manual_seed(rank)
    data = [workload.batch() for _ in range(NUM_BATCHES)]

    def step(index: int) -> Tensor:
        x, y = data[index % NUM_BATCHES]
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        backward(loss)
        optimizer.step()
        return loss

    def together() -> None:
        if world > 1:
            dist.barrier()

    for index in range(WARM_UP):
        step(index)
    together()
    sent, cpu, begin = sent_bytes(), time.process_time(), time.perf_counter()
    for index in range(steps):
        loss = step(index)
    together()
    seconds = time.perf_counter() - begin
    found = {
        "samples_per_s": world * steps * workload.batch_size / seconds,
        "step_ms": 1000 * seconds / steps,
        "cpu_ms": 1000 * (time.process_time() - cpu) / steps,
        "sent_bytes": (sent_bytes() - sent) / steps,
        "loss": loss.item(),
        "workers": world,
        "threads": torch.get_num_threads(),
    }
    (out / f"worker{rank}.json").write_text(json.dumps(found))
