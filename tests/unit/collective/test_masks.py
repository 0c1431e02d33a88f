"""Masks of attention in what torch.compile has seen: those that hide nothing go, the others are laid out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from fleet.collective.parts.masks import PlainMasks

SHAPE = (2, 3, 6, 4)
Mask = Callable[[torch.Tensor], torch.Tensor]


def hides_nothing(x: torch.Tensor) -> torch.Tensor:
    places = torch.arange(x.shape[-2], device=x.device)[None, None, :, None]
    return (places >= 0).expand(x.shape[0], 1, x.shape[-2], x.shape[-2])


def is_causal(x: torch.Tensor) -> torch.Tensor:
    places = torch.arange(x.shape[-2], device=x.device)
    return (places[:, None] >= places[None, :]).expand(x.shape[0], 1, -1, -1)


def hides_a_row(x: torch.Tensor) -> torch.Tensor:
    places = torch.arange(x.shape[-2], device=x.device)[:, None]
    return (places < 4).expand(-1, x.shape[-2]) | torch.ones(1, x.shape[-2], device=x.device).bool()


def depends_on_values(x: torch.Tensor) -> torch.Tensor:
    return (x.sum(dim=(1, 3)) > -99.0)[:, None, :, None].expand(-1, 1, -1, x.shape[-2])


def is_drawn(x: torch.Tensor) -> torch.Tensor:
    return (torch.rand(x.shape[0], 1, x.shape[-2], 1) >= 0.0).expand(-1, -1, -1, x.shape[-2])


def adds(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(x.shape[0], 1, x.shape[-2], 1).expand(-1, -1, -1, x.shape[-2])


def is_filled(x: torch.Tensor) -> torch.Tensor:
    mask = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool)
    mask[:, 3:] = False
    return mask


def is_filled_by_a_method(x: torch.Tensor) -> torch.Tensor:
    mask = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool)
    mask.tril_()
    return mask


def is_filled_through_a_view(x: torch.Tensor) -> torch.Tensor:
    mask = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool)
    mask[0].narrow(0, 1, 2).logical_not_()
    return mask[None, None].expand(x.shape[0], 1, -1, -1)


def stands_beside_one_that_is_filled(x: torch.Tensor) -> torch.Tensor:
    is_filled(x)
    return hides_nothing(x)


class Attention(nn.Module):
    def __init__(self, mask: Mask, is_named: bool) -> None:
        super().__init__()
        self.mask, self.is_named = mask, is_named

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = self.mask(x)
        if self.is_named:
            return functional.scaled_dot_product_attention(x, x + 1, x * 2, attn_mask=mask, scale=0.3)
        return functional.scaled_dot_product_attention(x, x + 1, x * 2, mask)


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize(
    ("mask", "kept"),
    [
        (hides_nothing, None),
        (hides_a_row, None),
        (is_causal, 1),
        (depends_on_values, 1),
        (is_drawn, 1),
        (adds, 1),
        (is_filled, 1),
        (is_filled_by_a_method, 1),
        (is_filled_through_a_view, 1),
        (stands_beside_one_that_is_filled, None),
    ],
)
def test_masks(mask: Mask, kept: int | None, is_named: bool) -> None:
    """`kept`: how far the values of a mask that is kept lie apart."""
    seen: list[Any] = []

    def backend(module: torch.fx.GraphModule, _inputs: Any) -> Any:
        PlainMasks()(module.graph)
        module.graph.lint()
        module.recompile()

        def run(*inputs: Any) -> Any:
            seen.append(module)
            return module(*inputs)

        return run

    torch._dynamo.reset()
    x = torch.randn(SHAPE)
    model = Attention(mask, is_named)
    found = torch.compile(model, backend=backend)(x)
    assert torch.allclose(found, model(x), atol=1e-6)
    (node,) = seen[0].graph.find_nodes(op="call_function", target=functional.scaled_dot_product_attention)
    left = node.kwargs.get("attn_mask") if is_named else node.args[3]
    assert (left is None) == (kept is None)
    if left is not None:
        assert left.target == "contiguous" or left.meta["example_value"].stride(-1) == 1
    if kept is None:
        assert not seen[0].graph.find_nodes(op="call_method", target="expand")


class Counts(nn.Module):
    """Changes its buffers in place, and needs nothing of what these changes return."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(1)
        self.seen[0] = 5
        self.seen[1:].mul_(2)
        scores: torch.Tensor = self.norm(x)
        return scores


def test_changes_in_place_stay() -> None:
    def backend(module: torch.fx.GraphModule, _inputs: Any) -> Any:
        PlainMasks()(module.graph)
        module.recompile()
        return module

    torch._dynamo.reset()
    model, x = Counts(), torch.randn(8, 4)
    torch.compile(model, backend=backend)(x)
    assert model.seen.tolist() == [5.0, 2.0, 2.0]
    assert model.norm.num_batches_tracked == 1


def test_the_pass_has_a_name_for_torchs_cache() -> None:
    assert PlainMasks().uuid() == PlainMasks().uuid()
