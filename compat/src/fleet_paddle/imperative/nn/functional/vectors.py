"""Functions of vectors, labels and lengths: how alike two are, products of two, masks, softer labels."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet_paddle.imperative.creation import dtype_of
from fleet_paddle.imperative.tensor import Tensor, own

__all__ = [
    "bilinear",
    "cosine_similarity",
    "diag_embed",
    "gather_tree",
    "label_smooth",
    "sequence_mask",
]


def cosine_similarity(x1: torch.Tensor, x2: torch.Tensor, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors; a product of lengths below `eps` counts as `eps`."""
    return own(F.cosine_similarity(x1, x2, axis, eps))


def bilinear(
    x1: torch.Tensor,
    x2: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """x1 times each matrix of weight, which is [out, in1, in2], times x2, plus bias."""
    made = torch.einsum("bi,oij,bj->bo", x1, weight, x2)
    return own(made if bias is None else made + bias)


def label_smooth(
    label: torch.Tensor, prior_dist: torch.Tensor | None = None, epsilon: float = 0.1, name: str | None = None
) -> Tensor:
    """Of a distribution over classes the share `epsilon` goes to `prior_dist`, or to all classes alike."""
    rest: Any = 1 / label.shape[-1] if prior_dist is None else prior_dist
    made: torch.Tensor = (1 - epsilon) * label + epsilon * rest
    return own(made)


def sequence_mask(x: torch.Tensor, maxlen: Any = None, dtype: Any = "int64", name: str | None = None) -> Tensor:
    """1 for the places before each length, 0 from there on, up to `maxlen` or the greatest length."""
    longest = int(torch.amax(x)) if maxlen is None else int(maxlen)
    places = torch.arange(longest, device=x.device)
    return own((places < torch.unsqueeze(x, -1)).to(dtype_of(dtype)))


def diag_embed(input: torch.Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last dimension on a diagonal."""
    return own(torch.diag_embed(torch.as_tensor(input), offset, dim1, dim2))


def gather_tree(ids: torch.Tensor, parents: torch.Tensor) -> Tensor:
    """Whole ways of a beam search, [time, batch, beam], from each step's ids and the beams that they came from."""
    made, beams = [ids[-1]], parents[-1].long()
    for step in range(ids.shape[0] - 2, -1, -1):
        made.append(torch.gather(ids[step], -1, beams))
        beams = torch.gather(parents[step].long(), -1, beams)
    return own(torch.stack(made[::-1]))


def pairwise_distance(
    x: torch.Tensor, y: torch.Tensor, p: float = 2.0, epsilon: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x - y + epsilon along the last dimension."""
    return own(F.pairwise_distance(x, y, p, epsilon, keepdim))
