"""Adam's bias corrections, bit for bit those of csrc/rule/corrections.cc."""

import numpy as np
import torch

LARGEST_TABLE = 1 << 20
Number = float | torch.Tensor
"""One number, or a tensor of them, such as one for each row."""


class Corrections:
    """1 / (1 - beta^t), or with `is_root` the root of that, for t = 1, 2, ...; 1 once float32 cannot tell.

    The table ends at its largest size, as for a beta within 2e-5 of 1; past that the last bit of a double may differ.
    """

    def __init__(self, beta: float, *, is_root: bool) -> None:
        self._beta, self._exponent = beta, 0.5 if is_root else 1.0
        shares = 1 - np.multiply.accumulate(np.full(LARGEST_TABLE if beta else 1, beta))
        ends = np.flatnonzero(shares.astype(np.float32) == 1)
        self._is_cut = not len(ends)
        if len(ends):
            shares = np.append(shares[: ends[0]], 1.0)
        table = torch.from_numpy(1 / (np.sqrt(shares) if is_root else shares))
        self._size, self._tables = len(table), {torch.device("cpu"): table}

    def at(self, count: Number) -> Number:
        """The correction for step `count`, in double; a count below 1, as in a damaged file, counts as 1."""
        if isinstance(count, float):
            t = int(count) if count > 1 else 1
            if self._is_cut and t > self._size:
                return float(1 / (1 - self._beta**t) ** self._exponent)
            return float(self._tables[torch.device("cpu")][min(t, self._size) - 1])
        table = self._tables.get(count.device)
        if table is None:
            table = self._tables[count.device] = self._tables[torch.device("cpu")].to(count.device)
        found = table[count.clamp(1, self._size).long() - 1]
        if not self._is_cut:
            return found
        computed = (1 - self._beta ** count.double()).pow(-self._exponent)
        return torch.where(count > self._size, computed, found)
