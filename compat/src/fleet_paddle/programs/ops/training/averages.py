"""`average_accumulates`: sums of a parameter over a window of steps, which `ModelAverage` divides by their number.

What is summed up goes to `Sum3`, in place of what was there, when it is long enough: `min_average_window` steps at
least, and `max_average_window` or the share `average_window` of all steps, whichever is fewer.
"""

from __future__ import annotations

import torch

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering

T = torch.Tensor

KEPT = ("Sum1", "Sum2", "Sum3", "NumAccumulates", "OldNumAccumulates", "NumUpdates")
_MOST = 16384
"""After as many steps the newest sum goes to another one, so that small numbers are added to small ones."""


def _infer(infer: Infer) -> None:
    for slot in KEPT:
        wanted = infer.shape("Param") if slot.startswith("Sum") else (1,)
        if infer.shape(slot) != wanted:
            raise infer.fail(f"{slot} must have shape {list(wanted)}, got {list(infer.shape(slot))}")


@register(
    "average_accumulates",
    inputs=("Param", *KEPT),
    outputs=tuple(f"{slot}Out" for slot in KEPT),
    attrs={"average_window": 0.0, "min_average_window": 10000, "max_average_window": 10000},
    infer=_infer,
)
def _accumulate(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    share, least, most = (op.attr(name) for name in ("average_window", "min_average_window", "max_average_window"))

    def run(param: T, newest: T, newer: T, old: T, count: T, old_count: T, steps: T) -> None:
        accumulate(param, newest, newer, old, count, old_count, steps, share=share, least=least, most=most)

    return run


def accumulate(
    param: T, newest: T, newer: T, old: T, count: T, old_count: T, steps: T, *, share: float, least: int, most: int
) -> None:
    """Add a parameter's value to its sums, in place, and begin them anew where they are long enough."""
    steps.add_(1)
    count.add_(1)
    newest.add_(param)
    is_full = steps % _MOST == 0
    newer.add_(newest * is_full)
    newest.mul_(~is_full)
    is_long = (count >= least) & (count >= (steps.double() * share).long().clamp(max=most))
    old.copy_(torch.where(is_long, newest + newer, old))
    old_count.copy_(torch.where(is_long, count, old_count))
    for one in (newest, newer, count):
        one.mul_(~is_long)
