"""What a script has chosen for all that it makes: type of new floats, device, tensors or programs, training or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch


@dataclass
class Choices:
    """The choices of a process; `set_default_dtype`, `set_device`, `enable_static`, `train` and `eval` make them."""

    dtype: str = "float32"
    device: torch.device | None = None
    """None until somebody chose: then the worker's own is taken."""
    programs: bool | None = None
    """Whether what could mean both means programs rather than tensors; None until somebody spoke, and then tensors."""
    training: bool = True
    """Whether the last layer that was told is to be trained, not evaluated; functions without a layer go by it."""


chosen = Choices()


@contextmanager
def guard() -> Iterator[None]:
    """What is chosen inside ends with the block."""
    before = replace(chosen)
    try:
        yield
    finally:
        vars(chosen).update(vars(before))
