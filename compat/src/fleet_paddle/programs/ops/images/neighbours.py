"""Normalisation over neighbouring channels, wherever the channels are."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet_paddle.programs.variables.computed import computed
from fleet_paddle.rows.window import back, plain, to_first


@computed(
    "local_response_norm",
    "F.local_response_norm(x, size, alpha=0.0001, beta=0.75, k=1.0, data_format='NCHW', name)",
    {"size": 1, "alpha": 1e-4, "beta": 0.75, "k": 1.0, "data_format": "NCHW"},
    layer="LocalResponseNorm",
)
def _response_norm(x: torch.Tensor, size: int, alpha: float, beta: float, k: float, data_format: str) -> torch.Tensor:
    """x divided by (k + alpha * the mean square of `size` neighbouring channels) ** beta."""
    last = data_format.endswith("C") and x.dim() > 2
    return back(F.local_response_norm(to_first(plain(x), last).contiguous(), size, alpha, beta, k), last)
