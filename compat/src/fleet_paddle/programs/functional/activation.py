"""`dropout` of variables."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.errors import NotSupportedError, UsageError
from fleet.static import layers
from fleet.static.variable import Variable


def dropout(
    x: Variable,
    p: float = 0.5,
    axis: int | Sequence[int] | None = None,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Variable:
    """While training, each value is zero with probability `p`; with "upscale_in_train" those that stay grow.

    A program that was built with `training` evaluates after `clone(for_test=True)`.
    """
    if axis is not None:
        raise NotSupportedError("dropout: axis must be left out for a variable")
    kinds = {"upscale_in_train": "upscale_in_train", "downscale_in_infer": "downgrade_in_infer"}
    if mode not in kinds:
        raise UsageError(f"dropout: mode must be one of {', '.join(kinds)}, got {mode!r}")
    return layers.dropout(x, p, not training, name=name, dropout_implementation=kinds[mode])
