"""`paddle.static.amp` and `fluid.contrib.mixed_precision`: mixed precision in programs, under their arguments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fleet.errors import NotSupportedError
from fleet_programs import amp
from fleet_programs.amp import AutoMixedPrecisionLists, MixedPrecision

__all__ = ["AutoMixedPrecisionLists", "decorate", "fp16_guard"]


def decorate(
    optimizer: Any,
    amp_lists: AutoMixedPrecisionLists | None = None,
    init_loss_scaling: float = 2.0**15,
    incr_every_n_steps: int = 1000,
    decr_every_n_nan_or_inf: int = 2,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.8,
    use_dynamic_loss_scaling: bool = True,
    use_pure_fp16: bool = False,
    use_fp16_guard: bool | None = None,
) -> MixedPrecision:
    """An optimizer of programs that trains in mixed precision; parameters stay in single precision."""
    if use_pure_fp16 or use_fp16_guard:
        name = "use_pure_fp16" if use_pure_fp16 else "use_fp16_guard"
        raise NotSupportedError(
            f"decorate: {name} is not built; leave it out, and name operators in AutoMixedPrecisionLists"
        )
    return amp.decorate(
        optimizer,
        amp_lists,
        init_loss_scaling,
        incr_every_n_steps,
        decr_every_n_nan_or_inf,
        incr_ratio,
        decr_ratio,
        use_dynamic_loss_scaling,
    )


@contextmanager
def fp16_guard() -> Iterator[None]:
    """Marks what `use_fp16_guard` would compute in float16, which `decorate` refuses: without it, it says nothing."""
    yield
