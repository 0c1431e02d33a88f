"""`flops`: what a forward pass costs, counted as PaddlePaddle counts it: a multiplication and an addition are one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from fleet_paddle.hapi.summary import _inputs
from fleet_paddle.imperative import nn

__all__ = ["flops"]

Count = Callable[[Any, Any, Any], int]


def flops(net: Any, input_size: Any, custom_ops: dict[type, Count] | None = None, print_detail: bool = False) -> int:
    """The operations of convolutions, linear layers, norms and pools for an input of this shape.

    `custom_ops` has a function for each class that is counted otherwise: it is given a layer, its inputs and its
    output, and gives the number back. A layer of another class costs nothing.
    """
    rows: list[tuple[str, int, int]] = []
    hooks = []
    for name, layer in net.named_modules():
        count = (custom_ops or {}).get(type(layer)) or _KNOWN.get(type(layer))
        if count is not None:
            hooks.append(layer.register_forward_hook(_counting(rows, name, count)))
    was_training = net.training
    try:
        with torch.no_grad():
            net.eval()(*_inputs(input_size, None))
    finally:
        net.train(was_training)
        for one in hooks:
            one.remove()
    total = sum(cost for _, cost, _ in rows)
    if print_detail:
        for name, cost, own in rows:
            print(f"{name or type(net).__name__}: {cost} operations, {own} parameters")
    print(f"Total Flops: {total}     Total Params: {sum(one.numel() for one in net.parameters())}")
    return total


def _counting(rows: list[tuple[str, int, int]], name: str, count: Count) -> Any:
    def hook(layer: Any, inputs: Any, output: Any) -> None:
        rows.append((name, int(count(layer, inputs, output)), sum(one.numel() for one in layer.parameters())))

    return hook


def _convolution(layer: Any, _: Any, output: Any) -> int:
    weights = math.prod(layer.weight.shape[1:])
    return int(output.numel() * (weights + (layer.bias is not None)))


def _linear(layer: Any, _: Any, output: Any) -> int:
    return int(layer.weight.shape[0] * output.numel())


def _norm(_: Any, inputs: Any, __: Any) -> int:
    return 2 * int(inputs[0].numel())


def _each(_: Any, __: Any, output: Any) -> int:
    return int(output.numel())


def _adaptive(_: Any, inputs: Any, output: Any) -> int:
    window = math.prod(before // after for before, after in zip(inputs[0].shape[2:], output.shape[2:], strict=True))
    return int((window + 1) * output.numel())


_KNOWN: dict[type, Count] = {
    **dict.fromkeys((nn.Conv1D, nn.Conv2D, nn.Conv3D), _convolution),
    **dict.fromkeys((nn.Conv1DTranspose, nn.Conv2DTranspose, nn.Conv3DTranspose), _convolution),
    nn.Linear: _linear,
    **dict.fromkeys((nn.BatchNorm, nn.BatchNorm1D, nn.BatchNorm2D, nn.BatchNorm3D), _norm),
    **dict.fromkeys((nn.AvgPool1D, nn.AvgPool2D, nn.AvgPool3D, nn.LeakyReLU), _each),
    **dict.fromkeys((nn.AdaptiveAvgPool1D, nn.AdaptiveAvgPool2D, nn.AdaptiveAvgPool3D), _adaptive),
}
