"""The sizes of BERT, and how each is trained unless the command line says otherwise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """A preset. `vocabulary` is the most wordpieces there may be; `length` the tokens of a sequence."""

    vocabulary: int
    length: int
    width: int
    num_layers: int
    num_heads: int
    dropout: float
    batch_size: int
    steps: int
    lr: float
    warmup: int
    weight_decay: float = 0.01
    optimizer: str = "adamw"
    masked: float = 0.15

    @property
    def num_masked(self) -> int:
        """Tokens of a sequence to guess: of each as many, so that the means of all workers count alike."""
        return max(1, round(self.masked * self.length))


PRESETS = {
    "tiny": Config(160, 32, 64, 2, 2, 0.0, batch_size=32, steps=300, lr=3e-3, warmup=40),
    "base": Config(30528, 128, 768, 12, 12, 0.1, batch_size=256, steps=100_000, lr=1e-4, warmup=10_000),
    "large": Config(30528, 128, 1024, 24, 16, 0.1, batch_size=256, steps=100_000, lr=1e-4, warmup=10_000),
    "large512": Config(30528, 512, 1024, 24, 16, 0.1, batch_size=64, steps=100_000, lr=1e-4, warmup=10_000),
}
