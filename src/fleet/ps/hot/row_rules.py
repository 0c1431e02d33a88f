"""Rules of csrc/rule on many rows at once, as torch operations: for rows that a cache trains where the model is.

Every operation is rounded by itself and stands in the order of the native rule, as in `tensor_rules`, so that a GPU and
the table give the same bits. Unlike there, a count of steps belongs to each row.

Legend: U rows, D their width, W floats of state beside them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
import torch

from fleet.errors import UsageError

Args = Mapping[str, float]
LARGEST_TABLE = 1 << 20


class RowRule(ABC):
    """One rule with its arguments."""

    def __init__(self, args: Args) -> None:
        self._args = args
        self._sign = -1.0 if args.get("maximize", 0) else 1.0
        self._decay = args.get("weight_decay", 0.0)

    @abstractmethod
    def apply(self, values: torch.Tensor, state: torch.Tensor, grads: torch.Tensor, lr: float) -> None:
        """One update in place of float32 values [U, D] and state [U, W]; the gradients are not changed."""

    def _gradient(self, values: torch.Tensor, grads: torch.Tensor) -> torch.Tensor:
        grads = grads * self._sign if self._sign < 0 else grads
        return grads + values * self._decay if self._decay else grads


class Sgd(RowRule):
    """`values -= lr * g`."""

    def apply(self, values: torch.Tensor, state: torch.Tensor, grads: torch.Tensor, lr: float) -> None:  # noqa: ARG002
        values.sub_(self._gradient(values, grads) * lr)


class Adagrad(RowRule):
    """State: the sum of squares of each element and, with lr_decay, the row's count of steps."""

    def apply(self, values: torch.Tensor, state: torch.Tensor, grads: torch.Tensor, lr: float) -> None:
        width, decay = values.shape[1], self._args.get("lr_decay", 0.0)
        rate: float | torch.Tensor = lr
        if decay:
            count = state[:, width:]
            rate = (lr / (count.double() * decay).add_(1.0)).float()
            count.add_(1.0)
        g = self._gradient(values, grads)
        sums = state[:, :width]
        sums.add_(g * g)
        values.sub_((g * rate).div_(_root(sums).add_(self._args.get("eps", 1e-10))))


class Adam(RowRule):
    """State: the mean of gradients, that of their squares, with amsgrad the largest of those, then the count."""

    def __init__(self, args: Args, default_decay: float = 0.0, is_decoupled: bool = False) -> None:
        super().__init__(args)
        self._beta1, self._beta2 = args.get("beta1", 0.9), args.get("beta2", 0.999)
        self._is_decoupled = bool(args.get("decoupled_weight_decay", is_decoupled))
        self._rows_decay = args.get("weight_decay", default_decay)
        self._decay = 0.0 if self._is_decoupled else self._rows_decay
        self._mean = torch.from_numpy(1 / corrections("beta1", self._beta1))
        self._square = torch.from_numpy(1 / np.sqrt(corrections("beta2", self._beta2)))

    def apply(self, values: torch.Tensor, state: torch.Tensor, grads: torch.Tensor, lr: float) -> None:
        width = values.shape[1]
        means, squares, count = state[:, :width], state[:, width : 2 * width], state[:, -1:]
        count.add_(1.0)
        rate = (self._at("_mean", count) * lr).float()
        scale = self._at("_square", count).float()
        g = self._gradient(values, grads)
        means.add_((g - means).mul_(1 - self._beta1))
        squares.mul_(self._beta2).add_((g * (1 - self._beta2)).mul_(g))
        if self._args.get("amsgrad", 0):
            largest = state[:, 2 * width : 3 * width]
            squares = largest.copy_(torch.maximum(largest, squares))
        change = (means * rate).div_(_root(squares).mul_(scale).add_(self._args.get("eps", 1e-8)))
        if self._is_decoupled and self._rows_decay:
            values.mul_(1 - lr * self._rows_decay)
        values.sub_(change)

    def _at(self, name: str, count: torch.Tensor) -> torch.Tensor:
        """A correction of each row, in double; past the table it is 1, which stands at its end."""
        table: torch.Tensor = getattr(self, name)
        if table.device != count.device:
            table = table.to(count.device)
            setattr(self, name, table)
        return table[(count.clamp(1, len(table)).long() - 1)]


class AdamW(Adam):
    """Adam whose weights decay by a factor."""

    def __init__(self, args: Args) -> None:
        super().__init__(args, 0.01, True)


ROW_RULES: dict[str, type[RowRule]] = {"adagrad": Adagrad, "adam": Adam, "adamw": AdamW, "sgd": Sgd}


def corrections(name: str, beta: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """1 - beta^t for t = 1, 2, ... until float32 cannot tell it from 1, then 1: as csrc/rule/corrections.cc has it."""
    if np.float32(1 - beta**LARGEST_TABLE) != 1:
        raise UsageError(
            f"a cache of rows takes {name} up to about 0.99998, got {beta}; lower it, or leave the cache out"
        )
    found: list[float] = []
    power = beta
    while np.float32(1 - power) != 1:
        found.append(1 - power)
        power *= beta
    return np.array([*found, 1.0])


def _root(tensor: torch.Tensor) -> torch.Tensor:
    """The nearest float; torch's own on a CPU may be the one beside it."""
    return torch.from_numpy(np.sqrt(tensor.numpy())) if tensor.device.type == "cpu" else tensor.sqrt()
