"""Attention against torch's, forward and in every gradient; both ways to compute it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from fleet.errors import UsageError
from fleet_programs import layers
from fleet_programs.backward.backward import append_backward
from fleet_programs.layers.io import fed
from fleet_programs.operators.networks import attention
from program_support.programs import building
from program_support.static_ops import check, normal


@pytest.mark.parametrize("more", [{}, {"is_causal": True}, {"scale": 0.3}])
def test_attention(more: dict[str, Any]) -> None:
    feeds = {name: normal(2, 3, 5, 4) for name in "qkv"}
    check(
        lambda q, k, v: layers.scaled_dot_product_attention(q, k, v, **more),
        feeds,
        lambda q, k, v: scaled_dot_product_attention(q, k, v, **more),
    )


def test_attention_over_another_length() -> None:
    feeds = {"q": normal(2, 3, 5, 4), "k": normal(2, 3, 7, 4), "v": normal(2, 3, 7, 4)}
    check(
        lambda q, k, v: layers.scaled_dot_product_attention(q, k, v),
        feeds,
        lambda q, k, v: scaled_dot_product_attention(q, k, v),
    )


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_way_of_gpus_without_a_kernel_finds_the_same(is_causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere only widths that no kernel takes come there."""
    monkeypatch.setattr(attention, "_on_cpu", lambda _: False)
    monkeypatch.setattr(attention, "_is_fused", lambda *_: False)
    check(
        lambda q, k, v: layers.scaled_dot_product_attention(q, k, v, is_causal=is_causal),
        {name: normal(2, 3, 5, 4) for name in "qkv"},
        lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=is_causal),
    )


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (([2, 3, 5, 4], [2, 3, 5, 6], [2, 3, 5, 4]), "the width of a head must agree"),
        (([2, 3, 5, 4], [2, 1, 5, 4], [2, 3, 5, 4]), "the number of heads must agree"),
        (([2, 3, 5, 4], [2, 3, 5, 4], [2, 3, 6, 4]), "the number of keys and of values must agree"),
        (([2, 5, 4], [2, 5, 4], [2, 5, 4]), "Q"),
    ],
)
def test_what_does_not_fit_is_refused(shapes: tuple[list[int], ...], words: str) -> None:
    with building():
        q, k, v = (fed(name, shape) for name, shape in zip("qkv", shapes, strict=True))
        with pytest.raises(UsageError, match=words):
            layers.scaled_dot_product_attention(q, k, v)


def test_what_is_not_wanted_has_no_gradient() -> None:
    values = normal(1, 2, 3, 4).astype(np.float32)
    with building() as built:
        q = layers.create_parameter([1, 2, 3, 4], "float32", name="q")
        fixed = fed("k", [1, 2, 3, 4])
        loss = layers.mean(layers.scaled_dot_product_attention(q, fixed, fixed))
        append_backward(loss)
    built.start()
    (slope,) = built.run({"k": values}, "q@GRAD")
    own = torch.from_numpy(built["q"].copy()).requires_grad_()
    keys = torch.from_numpy(values)
    scaled_dot_product_attention(own, keys, keys).mean().backward()
    assert own.grad is not None
    np.testing.assert_allclose(slope, own.grad.numpy(), atol=1e-7)
