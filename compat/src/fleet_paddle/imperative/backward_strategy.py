"""`BackwardStrategy`, which scripts of 1.6 and 1.7 hand to `backward`."""

from __future__ import annotations


class BackwardStrategy:
    """How gradients of one tensor are added up: `sort_sum_gradient` asks for one order, which autograd always keeps."""

    sort_sum_gradient = False
