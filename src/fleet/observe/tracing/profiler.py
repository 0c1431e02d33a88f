"""The names of a step's parts, for torch.profiler: `fleet.pull`, `fleet.push`, ... Torch is asked, never imported."""

import sys
from typing import Any

Mark = Any
"""A `torch.profiler.record_function` that has been entered."""


def begin(name: str) -> Mark | None:
    """Mark the begin of a part, if a profiler records this thread; else this asks torch one question and is over."""
    torch = sys.modules.get("torch")
    if torch is None or not _is_profiled(torch):
        return None
    mark = torch.profiler.record_function(f"fleet.{name}")
    mark.__enter__()
    return mark


def end(mark: Mark | None) -> None:
    """End what `begin` has begun, on the same thread."""
    if mark is not None:
        mark.__exit__(None, None, None)


def _is_profiled(torch: Any) -> bool:
    try:
        return bool(torch.autograd._profiler_enabled())
    except AttributeError:  # torch is being imported, or another torch than the one we know
        return False
