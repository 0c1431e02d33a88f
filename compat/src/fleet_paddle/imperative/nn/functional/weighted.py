"""What layers with a weight do: products, rows of a table, normalisation; and `one_hot`, rows of the identity."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet_paddle.imperative.nn.functional.window import Sizes
from fleet_paddle.imperative.tensor import Tensor, own


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, name: str | None = None) -> Tensor:
    """x times weight, which is [in, out], plus bias."""
    if bias is not None and x.dim() == 2:
        return own(torch.addmm(bias, x, weight))
    return own(F.linear(x, weight.T, bias))


def embedding(
    x: torch.Tensor,
    weight: torch.Tensor,
    padding_idx: int | None = None,
    sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The rows of `weight` for the ids in `x`; that of `padding_idx` reads as zeros and is not trained."""
    made = F.embedding(x, weight, padding_idx, sparse=sparse)
    if padding_idx is not None:
        made = made.masked_fill((x == padding_idx % len(weight)).unsqueeze(-1), 0)
    return own(made)


def layer_norm(
    x: torch.Tensor,
    normalized_shape: Sizes,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    epsilon: float = 1e-05,
    name: str | None = None,
) -> Tensor:
    """Mean 0 and variance 1 over the last dimensions."""
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    return own(F.layer_norm(x, shape, weight, bias, epsilon))


def one_hot(x: torch.Tensor, num_classes: int, name: str | None = None) -> Tensor:
    """A 1 at the place of each label, as floats."""
    return own(F.one_hot(x.long(), num_classes).float())
