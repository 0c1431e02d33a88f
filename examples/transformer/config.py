"""The sizes of the Transformer, and how each is trained unless the command line says otherwise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """A preset. `batch_size` counts tokens of one language, with padding; `longest` those of a sentence."""

    vocabulary: int
    longest: int
    width: int
    inner: int
    num_layers: int
    num_heads: int
    dropout: float
    batch_size: int
    steps: int
    lr: float
    warmup: int
    smoothing: float = 0.1
    weight_decay: float = 0.0
    optimizer: str = "adam"
    bucket: int = 8
    """Sentences are padded to a multiple of this."""


PRESETS = {
    "tiny": Config(256, 32, 64, 128, 2, 2, 0.0, batch_size=512, steps=220, lr=4e-3, warmup=60),
    "small": Config(8_000, 96, 256, 1024, 4, 4, 0.2, batch_size=4_096, steps=10_000, lr=1e-3, warmup=1_000),
    "base": Config(
        32_000, 128, 512, 2048, 6, 8, 0.1, batch_size=25_600, steps=100_000, lr=7e-4, warmup=4_000, bucket=16
    ),
    "big": Config(
        32_000, 128, 1024, 4096, 6, 16, 0.3, batch_size=25_600, steps=300_000, lr=5e-4, warmup=4_000, bucket=16
    ),
}
