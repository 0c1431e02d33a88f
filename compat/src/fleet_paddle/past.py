"""Keywords that layers have in some versions only, and that say nothing about a result here."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from fleet.errors import NotSupportedError
from fleet_programs.definition.kinds import TENSOR

KEYWORDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "Print": {"print_tensor_layout": (True, False)},
    "batch_norm": {"fuse_with_relu": (False,)},
    "data": {"type": (None, TENSOR)},
    "sparse_embedding": {"table_class": ("MemorySparseTable", "CommonSparseTable")},
}
"""Layer -> keyword -> the values that ask for nothing."""


def with_past(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """The layer, taking what it takes in some version; NotSupportedError for a value that asks for something."""
    known = KEYWORDS.get(name)
    if known is None:
        return call

    @wraps(call)
    def taking(*args: Any, **named: Any) -> Any:
        for keyword, values in known.items():
            if keyword in named and (value := named.pop(keyword)) not in values:
                raise NotSupportedError(f"{name}: {keyword} must be {values[-1]!r}, got {value!r}; leave it out")
        return call(*args, **named)

    return taking
