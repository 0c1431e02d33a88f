"""How often each score came in each group, with which label; a bounded number of lines."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch

from fleet.errors import UsageError, UsageTypeError

Weight = Literal["impressions", "clicks", "equal"]
_MOST_SHIFT = 32


class Lines(NamedTuple):
    """For each line its group and the code of its score, int64 [2, n]; and negatives and positives, [2, n].

    Those are int64, or float64 where samples have weights.
    """

    keys: torch.Tensor
    counts: torch.Tensor


def _joined(parts: list[Lines]) -> Lines:
    device = parts[-1].keys.device
    return Lines(*(torch.cat([one.to(device) for one in each], dim=1) for each in zip(*parts, strict=True)))


class GroupCounts:
    """Lines (group, code of a score, negatives, positives). Codes are ordered as the scores are.

    New lines wait until they are many; then all are sorted, and those of one group and code become one. If there are
    still more than `most`, the last bits of all codes are left out, one after the other.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._shift = 0
        self._lines = Lines(*torch.empty(2, 2, 0, dtype=torch.int64))
        self._waiting: list[Lines] = []
        self._num_waiting = 0

    def add(
        self, groups: torch.Tensor, scores: torch.Tensor, is_positive: torch.Tensor, weights: torch.Tensor | None
    ) -> None:
        """Count samples."""
        bits = (scores + 0.0).contiguous().view(torch.int32)  # -0.0 is 0.0
        code = torch.where(bits < 0, -(bits & 0x7FFFFFFF).long(), bits.long()) >> self._shift
        counts = torch.stack([~is_positive, is_positive])
        self._wait(Lines(torch.stack([groups, code]), counts.long() if weights is None else counts * weights))

    def _wait(self, lines: Lines) -> None:
        self._waiting.append(lines)
        self._num_waiting += lines.keys.shape[1]
        if self._num_waiting > max(self._most // 4, self._lines.keys.shape[1] // 2):
            self._gather()

    def _gather(self) -> None:
        if self._waiting:
            self._lines = _sorted(_joined([self._lines, *self._waiting]))
            self._waiting, self._num_waiting = [], 0
        while self._lines.keys.shape[1] > self._most:
            if self._shift == _MOST_SHIFT:
                raise UsageError(
                    f"GroupedAUC has more groups than max_entries={self._most} allows; make it greater, or the groups "
                    "fewer by a hash of them"
                )
            self._coarsen(1)

    def _coarsen(self, num_bits: int) -> None:
        self._shift += num_bits
        self._lines.keys[1] >>= num_bits
        self._lines = _sorted(self._lines)

    def entries(self) -> Lines:
        """All lines, by group and code."""
        self._gather()
        return self._lines

    def state(self) -> torch.Tensor:
        """A column that says how many bits were left out and whether counts are float64, and the lines."""
        keys, counts = self.entries()
        head = torch.tensor([[self._shift], [counts.is_floating_point()], [0], [0]])
        return torch.cat([head, torch.cat([keys, counts.view(torch.int64)]).cpu()], dim=1)

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
        shift, keys, counts = int(state[0, 0]), state[:2, 1:].clone(), state[2:, 1:].contiguous()
        if shift > self._shift:
            self._gather()
            self._coarsen(shift - self._shift)
        keys[1] >>= self._shift - shift
        self._wait(Lines(keys, counts.view(torch.float64) if state[1, 0] else counts))


def _sorted(lines: Lines) -> Lines:
    """By group and code, one line for each pair."""
    order = lines.keys[1].argsort(stable=True)
    order = order[lines.keys[0, order].argsort(stable=True)]
    keys, counts = lines.keys[:, order], lines.counts[:, order]
    begins = torch.ones(keys.shape[1], dtype=torch.bool, device=keys.device)
    begins[1:] = (keys[:, 1:] != keys[:, :-1]).any(0)
    keys, place = keys[:, begins], begins.cumsum(0) - 1
    sums = torch.zeros(2, keys.shape[1], dtype=counts.dtype, device=keys.device)
    return Lines(keys, sums.index_add_(1, place, counts))


def weighted_area(lines: Lines, weight: Weight) -> float:
    """The mean of the AUC within each group that has both labels; NaN if none has."""
    groups, (negatives, positives) = lines.keys[0], lines.counts
    if not len(groups):
        return float("nan")
    begins = torch.ones(len(groups), dtype=torch.bool, device=groups.device)
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
