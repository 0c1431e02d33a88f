"""The closure that `step` of an optimizer may be given, as torch's optimizers treat it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def loss_of(closure: Callable[[], Any] | None) -> Any:
    """What the closure gives, computed with gradients though `step` has none; None without a closure."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()
