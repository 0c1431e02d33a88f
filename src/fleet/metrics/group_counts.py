"""How often each score came in each group, with which label; a bounded number of lines."""

from __future__ import annotations

from typing import Any, Literal

import torch

from fleet.errors import UsageError, UsageTypeError

Weight = Literal["impressions", "clicks", "equal"]
_MOST_SHIFT = 32


class GroupCounts:
    """Lines (group, code of a score, negatives, positives). Codes are ordered as the scores are.

    New lines wait until they are many; then all are sorted, and those of one group and code become one. If there are
    still more than `most`, the last bits of all codes are left out, one after the other.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._shift = 0
        self._lines = torch.empty(4, 0, dtype=torch.int64)
        self._waiting: list[torch.Tensor] = []
        self._num_waiting = 0

    def add(self, groups: torch.Tensor, scores: torch.Tensor, is_positive: torch.Tensor) -> None:
        """Count samples."""
        bits = (scores + 0.0).contiguous().view(torch.int32)  # -0.0 is 0.0
        code = torch.where(bits < 0, -(bits & 0x7FFFFFFF).long(), bits.long()) >> self._shift
        self._wait(torch.stack([groups, code, (~is_positive).long(), is_positive.long()]))

    def _wait(self, lines: torch.Tensor) -> None:
        self._waiting.append(lines)
        self._num_waiting += lines.shape[1]
        if self._num_waiting > max(self._most // 4, self._lines.shape[1] // 2):
            self._gather()

    def _gather(self) -> None:
        if self._waiting:
            device = self._waiting[-1].device
            self._lines = _sorted(torch.cat([part.to(device) for part in (self._lines, *self._waiting)], dim=1))
            self._waiting, self._num_waiting = [], 0
        while self._lines.shape[1] > self._most:
            if self._shift == _MOST_SHIFT:
                raise UsageError(
                    f"GroupedAUC has more groups than max_entries={self._most} allows; make it greater, or the groups "
                    "fewer by a hash of them"
                )
            self._shift += 1
            self._lines[1] >>= 1
            self._lines = _sorted(self._lines)

    def entries(self) -> torch.Tensor:
        """All lines, by group and code."""
        self._gather()
        return self._lines

    def state(self) -> torch.Tensor:
        """A column that says how many bits were left out, and the lines."""
        lines = self.entries().cpu()
        return torch.cat([torch.tensor([[self._shift], [0], [0], [0]]), lines], dim=1)

    def merge(self, state: Any) -> None:
        """Add the lines of another's state."""
        if not isinstance(state, torch.Tensor):
            raise UsageTypeError(f"state must be a tensor, got {type(state).__name__}")
        is_one = state.dtype is torch.int64 and state.dim() == 2 and state.shape[0] == 4 and state.shape[1] > 0
        if not is_one or not 0 <= int(state[0, 0]) <= _MOST_SHIFT or bool((state[2:] < 0).any()):
            raise UsageError(
                f"state must be the int64 [4, lines + 1] that GroupedAUC.state() gives, got {state.dtype} "
                f"{list(state.shape)}"
            )
        shift, lines = int(state[0, 0]), state[:, 1:].clone()
        if shift > self._shift:
            self._gather()
            self._lines[1] >>= shift - self._shift
            self._lines = _sorted(self._lines)
            self._shift = shift
        lines[1] >>= self._shift - shift
        self._wait(lines)


def _sorted(lines: torch.Tensor) -> torch.Tensor:
    """By group and code, one line for each pair."""
    lines = lines[:, lines[1].argsort(stable=True)]
    lines = lines[:, lines[0].argsort(stable=True)]
    begins = torch.ones(lines.shape[1], dtype=torch.bool, device=lines.device)
    begins[1:] = (lines[:2, 1:] != lines[:2, :-1]).any(0)
    place = begins.cumsum(0) - 1
    made = lines[:, begins].clone()
    made[2:] = 0
    made[2:].index_add_(1, place, lines[2:])
    return made


def weighted_area(lines: torch.Tensor, weight: Weight) -> float:
    """The mean of the AUC within each group that has both labels; NaN if none has."""
    if lines.shape[1] == 0:
        return float("nan")
    groups, _, negatives, positives = lines
    begins = torch.ones(lines.shape[1], dtype=torch.bool, device=lines.device)
    begins[1:] = groups[1:] != groups[:-1]
    group = begins.cumsum(0) - 1
    num = int(group[-1]) + 1

    def by_group(values: torch.Tensor) -> torch.Tensor:
        return torch.zeros(num, dtype=torch.float64, device=values.device).index_add_(0, group, values.double())

    all_negatives, all_positives = by_group(negatives), by_group(positives)
    before = negatives.cumsum(0) - negatives  # of all groups; less those of groups before this one
    before = before - before[begins][group]
    pairs = by_group(positives * (2 * before + negatives)) / 2
    has_both = (all_negatives > 0) & (all_positives > 0)
    weights = {
        "impressions": all_negatives + all_positives,
        "clicks": all_positives,
        "equal": torch.ones_like(all_positives),
    }[weight]
    area = pairs[has_both] / (all_negatives * all_positives)[has_both]
    return float((area * weights[has_both]).sum() / weights[has_both].sum())
