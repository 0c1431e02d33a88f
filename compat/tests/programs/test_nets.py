"""Groups of layers: what they are made of, and that what they compute is right."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from fleet.errors import UsageError
from fleet_paddle.programs.networks import nets
from fleet_programs.layers.io import fed
from program_support.programs import building
from program_support.static_ops import check, normal


def test_simple_img_conv_pool() -> None:
    check(
        lambda x: nets.simple_img_conv_pool(x, 3, 3, 2, 2, conv_padding=1, act="relu"),
        {"x": normal(2, 1, 6, 6)},
        lambda x, w, b: functional.max_pool2d(torch.relu(functional.conv2d(x, w, b, padding=1)), 2, 2),
    )


def test_img_conv_group_is_convolutions_norms_and_a_pool() -> None:
    with building() as built:
        image = fed("image", [-1, 1, 8, 8])
        out = nets.img_conv_group(image, [4, 4], 2, conv_act="relu", conv_with_batchnorm=[True, False], pool_stride=2)
        nets.img_conv_group(image, [4], 2, conv_with_batchnorm=True, conv_batchnorm_drop_rate=[0.3])
        with pytest.raises(UsageError, match="conv_padding must be one, or one for each of 2 convolutions, got 1"):
            nets.img_conv_group(image, [4, 4], 2, conv_padding=[1])
    types = [op.type for op in built.main.global_block().ops if op.type != "elementwise_add"]
    assert types[:6] == ["conv2d", "batch_norm", "relu", "conv2d", "relu", "pool2d"]
    assert types[6:10] == ["conv2d", "batch_norm", "dropout", "pool2d"]
    assert out.shape == (-1, 4, 4, 4)


def test_sequence_conv_pool() -> None:
    offsets = np.array([0, 2, 5])

    def reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        rows = [functional.pad(row, (0, 0, 1, 1)).unfold(0, 3, 1).transpose(1, 2).flatten(1) for row in (x[:2], x[2:])]
        return torch.stack([torch.sigmoid(row @ weight + bias).amax(0) for row in rows])

    check(lambda x: nets.sequence_conv_pool(x, 4, 3), {"x": (normal(5, 2), offsets)}, reference)


def test_glu() -> None:
    check(nets.glu, {"input": normal(3, 6)}, lambda x: functional.glu(x, -1))


def test_attention_with_one_head() -> None:
    check(
        nets.scaled_dot_product_attention,
        {"queries": normal(2, 3, 4), "keys": normal(2, 5, 4), "values": normal(2, 5, 6)},
        functional.scaled_dot_product_attention,
    )


def test_attention_with_two_heads() -> None:
    def heads(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return (x @ weight + bias).reshape(2, -1, 2, x.shape[-1] // 2).transpose(1, 2)

    def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        q, k, v = (heads(x, *given[2 * i : 2 * i + 2]) for i, x in enumerate((q, k, v)))
        return functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    check(
        lambda q, k, v: nets.scaled_dot_product_attention(q, k, v, num_heads=2),
        {"q": normal(2, 3, 4), "k": normal(2, 5, 4), "v": normal(2, 5, 6)},
        reference,
    )


def test_attention_refuses_what_does_not_fit() -> None:
    with building():
        x, y = fed("x", [-1, 3, 4]), fed("y", [-1, 3, 5])
        with pytest.raises(UsageError, match="queries are 4 wide and keys 5"):
            nets.scaled_dot_product_attention(x, y, y)
        with pytest.raises(UsageError, match="num_heads must divide the widths 4 and 4, got 3"):
            nets.scaled_dot_product_attention(x, x, x, num_heads=3)
