"""Mixed precision: the loss is scaled up so that small float16 gradients survive, and down again before the step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

LEAST = 1.0


@dataclass(frozen=True)
class ScaleRule:
    """How the factor changes; the names are those of strategy.amp_configs."""

    init_loss_scaling: float = 32768.0
    incr_every_n_steps: int = 1000
    decr_every_n_nan_or_inf: int = 2
    incr_ratio: float = 2.0
    decr_ratio: float = 0.8
    use_dynamic_loss_scaling: bool = True


class LossScale:
    """The factor of the loss: grows after a run of clean steps, shrinks after a few that overflowed.

    All workers that step together see the same gradients, so their factors stay equal.
    """

    def __init__(self, rule: ScaleRule) -> None:
        self.rule = rule
        self.factor = rule.init_loss_scaling
        self._clean = 0
        self._overflowed = 0

    def unscale_(
        self,
        gradients: Iterable[torch.Tensor],
        agree: Callable[[torch.Tensor], None],
        device: torch.device,
        more: float = 1.0,
    ) -> bool:
        """Divide the gradients by the factor (and multiply by `more`); returns whether one is not finite.

        `agree` makes the flag equal on workers that hold different parts of the gradients.
        """
        flag = torch.zeros((), dtype=torch.float32, device=device)
        for part in _by_kind(gradients):
            found = torch.zeros((), dtype=torch.float32, device=part[0].device)
            inverse = torch.full((), more / self.factor, dtype=torch.float32, device=part[0].device)
            # Divides and looks in one pass; the same operation torch's own GradScaler uses.
            torch._amp_foreach_non_finite_check_and_unscale_(part, found, inverse)
            flag = torch.maximum(flag, found.to(device))
        agree(flag)
        return bool(flag)

    def update(self, has_overflowed: bool) -> None:
        """Adapt the factor after a step that was made, or was left out because it overflowed."""
        rule = self.rule
        if not rule.use_dynamic_loss_scaling:
            return
        if has_overflowed:
            self._clean, self._overflowed = 0, self._overflowed + 1
            if self._overflowed >= rule.decr_every_n_nan_or_inf:
                self.factor, self._overflowed = max(LEAST, self.factor * rule.decr_ratio), 0
        else:
            self._clean, self._overflowed = self._clean + 1, 0
            if self._clean >= rule.incr_every_n_steps:
                grown = self.factor * rule.incr_ratio
                self.factor, self._clean = grown if grown < 1e38 else self.factor, 0

    def state_dict(self) -> dict[str, float]:
        """The factor, and how many clean and overflowed steps it has counted."""
        return {"factor": self.factor, "clean": self._clean, "overflowed": self._overflowed}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Go on with what `state_dict` gave."""
        self.factor = float(state["factor"])
        self._clean, self._overflowed = int(state["clean"]), int(state["overflowed"])


def _by_kind(gradients: Iterable[torch.Tensor]) -> Sequence[list[torch.Tensor]]:
    kinds: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = {}
    for gradient in gradients:
        local = gradient.to_local() if hasattr(gradient, "to_local") else gradient  # a DTensor's own part
        local = local._values() if local.is_sparse else local
        kinds.setdefault((local.dtype, local.device), []).append(local)
    return list(kinds.values())
