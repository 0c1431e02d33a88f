"""Masks of attention in what torch.compile has seen: those that hide nothing go, the others are laid out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from fleet.collective.masks import PlainMasks

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


def test_the_pass_has_a_name_for_torchs_cache() -> None:
    assert PlainMasks().uuid() == PlainMasks().uuid()
