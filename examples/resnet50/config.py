"""The sizes of ResNet, and how each is trained unless the command line says otherwise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """A preset. `blocks` counts those of the four stages; `lr` is for 256 images a step and grows with their number."""

    blocks: tuple[int, int, int, int]
    width: int
    size: int
    num_classes: int
    """Of made-up images; a folder says itself how many it has."""
    batch_size: int
    steps: int
    lr: float
    warmup: int
    weight_decay: float = 5e-5
    optimizer: str = "sgd"
    smoothing: float = 0.1


PRESETS = {
    "tiny": Config((1, 1, 1, 1), 8, 32, 8, batch_size=32, steps=60, lr=0.8, warmup=10),
    "base": Config((3, 4, 6, 3), 64, 224, 1000, batch_size=256, steps=450_000, lr=0.1, warmup=25_000),
}
