"""What a script has chosen for all that it makes: type of new floats, device, tensors or programs, training or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from fleet_programs.definition.dtypes import canonical, torch_dtype


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


def dtype_of(given: Any, default: str | None = None) -> torch.dtype:
    """torch's dtype of what a user gave, or of the default, or of new floats."""
    return torch_dtype(canonical(given) if given is not None else default or chosen.dtype)


@contextmanager
def guard() -> Iterator[None]:
    """What is chosen inside ends with the block."""
    before = replace(chosen)
    try:
        yield
    finally:
        vars(chosen).update(vars(before))
