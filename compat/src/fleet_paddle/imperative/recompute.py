"""Memory for time: what a part of a network computes is forgotten and computed again in backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.checkpoint import checkpoint


def recompute(function: Callable[..., Any], *args: Any, preserve_rng_state: bool = True, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`, of which backward computes everything again instead of finding it in memory.

    With `preserve_rng_state` dropout leaves out the same elements the second time.
    """
    return checkpoint(function, *args, use_reentrant=False, preserve_rng_state=preserve_rng_state, **kwargs)
