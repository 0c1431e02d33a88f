"""What is around the windows of convolutions and pools: as much before as after, or not, or what a batch decides.

The attribute `paddings` has a number for each dimension, or two: before and after. With `padding_algorithm` "SAME",
which layers say where the sizes are not known when the program is built, there is one window for each stride.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer

Pairs = list[tuple[int, int]]
"""How much comes before and after, for each dimension."""
Find = Callable[[torch.Tensor, Sequence[int]], Pairs]

ATTRS: dict[str, Any] = {"padding_algorithm": "EXPLICIT"}
SAME = "SAME"


def pairs_of(paddings: Sequence[int], rank: int) -> Pairs:
    """The attribute as pairs."""
    if len(paddings) == rank:
        return [(one, one) for one in paddings]
    return list(zip(paddings[::2], paddings[1::2], strict=True))


def written(pairs: Pairs) -> list[int]:
    """Pairs as the attribute has them, which is shorter where they are even."""
    if all(before == after for before, after in pairs):
        return [before for before, _ in pairs]
    return [number for pair in pairs for number in pair]


def one_for_each_stride(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Pairs:
    """What "SAME" means for these sizes; the odd one comes after."""
    found = []
    for size, side, step, rate in zip(sizes, kernel, strides, dilations, strict=True):
        reach = rate * (side - 1) + 1
        total = reach - 1 if step == 1 else max((-(-size // step) - 1) * step + reach - size, 0)
        found.append((total // 2, total - total // 2))
    return found


def check_paddings(infer: Infer, rank: int) -> None:
    """Fail unless the attributes can be read."""
    count = len(infer.attr("paddings"))
    if count not in (rank, 2 * rank):
        raise infer.fail(f"paddings must have {rank} or {2 * rank} numbers, got {infer.attr('paddings')}")
    if infer.attr("padding_algorithm") not in ("EXPLICIT", SAME):
        raise infer.fail(f"padding_algorithm must be EXPLICIT or SAME, got {infer.attr('padding_algorithm')!r}")


def is_same(op: Operator) -> bool:
    """Whether a batch decides."""
    return bool(op.attr("padding_algorithm") == SAME)


def even(op: Operator, rank: int) -> list[int] | None:
    """One number for each dimension, as torch's kernels take them; None if that does not say it."""
    found = written(pairs_of(op.attr("paddings"), rank))
    return None if is_same(op) or len(found) != rank else found


def finding(op: Operator, rank: int) -> Find:
    """A function of images, their channels first, and of the window's sizes that finds the pairs."""
    if not is_same(op):
        fixed = pairs_of(op.attr("paddings"), rank)
        return lambda x, kernel: fixed  # noqa: ARG005
    strides = op.attr("strides")
    rates = op.attrs.get("dilations") or [1] * rank
    return lambda x, kernel: one_for_each_stride(x.shape[2:], kernel, strides, rates)


def wider(x: torch.Tensor, pairs: Pairs, value: float = 0.0) -> torch.Tensor:
    """Images with so much around them."""
    return functional.pad(x, [number for pair in reversed(pairs) for number in pair], value=value)


def cropped(x: torch.Tensor, pairs: Pairs) -> torch.Tensor:
    """Images without what is around them."""
    for dim, (before, after) in enumerate(pairs, 2):
        x = x.narrow(dim, before, x.shape[dim] - before - after)
    return x
