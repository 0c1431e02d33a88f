"""ESMM (Ma et al., 2018): conversions learnt over everything that was shown, not over what was clicked."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fleet.models.parts.base import BatchLike, Outputs
from fleet.models.parts.features import Tabular, beside
from fleet.models.parts.layers import mlp
from fleet.ps.job.named_spec import RuleSpec


class ESMM(Tabular):
    """Two towers over the same rows: p(click), and p(conversion | click), which has no label of its own.

    Labels are [B, 2]: clicked; clicked and converted. `forward` gives the logits of both, [B, 2], the second that of
    p(click) * p(conversion | click). `conversion(outputs)` gives the factor.
    """

    def __init__(
        self,
        num_dense: int,
        num_slots: int,
        dim: int = 16,
        hidden: Sequence[int] = (256, 128, 64),
        dropout: float = 0.0,
        rule: RuleSpec | None = None,
        bags: Sequence[str] = (),
    ) -> None:
        super().__init__(num_dense, num_slots, dim, rule=rule, bags=bags)
        self.click, self.convert = (mlp(self.features.width, hidden, 1, dropout=dropout) for _ in range(2))

    def forward(self, batch: BatchLike) -> Outputs:
        x = beside(*self.features(batch))
        click, convert = self.click(x), self.convert(x)
        return torch.cat([click, logit_of_both(click, convert)], dim=1)

    def conversion(self, outputs: Outputs) -> torch.Tensor:
        """p(conversion | click), [B]."""
        click, both = self.scores(outputs).unbind(1)
        return both / click


def logit_of_both(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The logit of `sigmoid(a) * sigmoid(b)`: with p that product, (1 - p) / p is exp(-a) + exp(-b) + exp(-a - b)."""
    return -torch.logsumexp(torch.stack([-a, -b, -a - b]), dim=0)
