"""Optimizers for large batches and compressed gradients; each also takes the place of one of torch's own."""

from __future__ import annotations

from fleet.optim.dgc_momentum import DGCMomentum
from fleet.optim.lamb import Lamb
from fleet.optim.lars import Lars

__all__ = ["DGCMomentum", "Lamb", "Lars"]
