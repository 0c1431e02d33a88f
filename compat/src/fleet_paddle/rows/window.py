"""What functions of windows are told in several ways: where the channels are, and how much comes on each side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fleet.errors import UsageError

KINDS = {1: "sequence", 2: "image", 3: "volume"}
"""What has so many dimensions beside its batch and its channels."""
FORMATS = {1: ("NCL", "NCW", "NLC", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
"""Where the channels may be; the first is what is meant without a word."""

Sizes = int | list[int] | tuple[int, ...]
"""A size for every dimension, or one for each."""

Sides = list[tuple[int, int]]
"""How many values come before and after, for each dimension of a window."""


def is_last(what: str, data_format: str, rank: int) -> bool:
    """Whether the channels are the last dimension of `rank`-dimensional images."""
    if data_format not in FORMATS[rank]:
        raise UsageError(f"{what}: data_format must be {' or '.join(FORMATS[rank])}, got {data_format!r}")
    return data_format.endswith("C")


def plain(x: torch.Tensor) -> torch.Tensor:
    """As torch's own class: some functions of torch are Python, and call methods that mean something else here."""
    return x if type(x) is torch.Tensor else x.as_subclass(torch.Tensor)


def to_first(x: torch.Tensor, last: bool) -> torch.Tensor:
    """With the channels after the batch, where they were last."""
    return torch.movedim(x, -1, 1) if last else x


def back(x: torch.Tensor, last: bool) -> torch.Tensor:
    """The way back."""
    return torch.movedim(x, 1, -1) if last else x


def each(what: str, value: Any, rank: int) -> list[int]:
    """One number for each dimension."""
    several = [value] * rank if isinstance(value, int) else [int(one) for one in value]
    several = several * rank if len(several) == 1 else several
    if len(several) != rank:
        raise UsageError(f"{what} must be a whole number or {rank} of them, got {value!r}")
    return several


def sides(
    what: str, padding: Any, last: bool, sizes: Sequence[int], kernel: Any, stride: Any, dilation: Any = 1
) -> Sides:
    """Padding as users give it: "SAME", "VALID", a number, one for each dimension, two for each, or pairs of all.

    With "SAME" there is one window for each stride.
    """
    rank = len(sizes)
    if isinstance(padding, str):
        if padding.upper() not in ("SAME", "VALID"):
            raise UsageError(f"{what}: padding must be 'SAME', 'VALID' or numbers, got {padding!r}")
        if padding.upper() == "VALID":
            return [(0, 0)] * rank
        steps = zip(sizes, *(each(what, one, rank) for one in (kernel, stride, dilation)), strict=True)
        totals = [
            max((-(-size // step) - 1) * step + rate * (side - 1) + 1 - size, 0) for size, side, step, rate in steps
        ]
        return [(total // 2, total - total // 2) for total in totals]
    given: list[Any] = [padding] if isinstance(padding, int) else list(padding)
    if given and not isinstance(given[0], int) and len(given) == rank + 2:
        given = [number for pair in (given[1:-1] if last else given[2:]) for number in pair]
    if len(given) == 2 * rank:
        return list(zip(given[::2], given[1::2], strict=True))
    return [(one, one) for one in each(f"{what}: padding", given, rank)]


def equal_sides(both: Sides) -> list[int] | None:
    """One number for each dimension, if as much comes before as after; else None."""
    return [before for before, _ in both] if all(before == after for before, after in both) else None


def flat(both: Sides) -> list[int]:
    """As torch's pad has it: the last dimension first."""
    return [number for pair in reversed(both) for number in pair]


def wide(size: Any, across: int) -> Any:
    """The size of something as long as a sequence says, and `across` high; words stay."""
    if isinstance(size, str):
        return size
    numbers = [size] if isinstance(size, int) else list(size)
    return [across] * len(numbers) + numbers
