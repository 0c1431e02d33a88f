"""MFU: the FLOPs that a model's step counts, over what the card could do in that time."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import FlopCounterMode

PEAK_TFLOPS = {
    r"B200": 2250.0,
    r"H200 NVL": 835.0,
    r"H200": 989.0,
    r"H100 PCIe": 756.0,
    r"H100 NVL": 835.0,
    r"H100 80GB HBM3|H100 SXM\w*": 989.0,
    r"A100[- ].*": 312.0,
    r"L40S": 362.0,
    r"L4": 121.0,
    r"V100-SXM\w*.*": 125.0,
}
"""Dense half-precision tensor-core TFLOP/s of a card by its name, as NVIDIA's data sheets have them."""


def peak_flops(given_tflops: float | None, device: torch.device) -> float | None:
    """FLOP/s of the device in half precision, whatever a run computes in; None for one that nobody knows."""
    if given_tflops is not None:
        return given_tflops * 1e12
    if device.type != "cuda":
        return None
    return peak_of(torch.cuda.get_device_name(device))


def peak_of(name: str) -> float | None:
    """FLOP/s of a card by the name that its driver gives; None for one that is not in the table."""
    name = name.removeprefix("NVIDIA ").strip()
    return next((peak * 1e12 for card, peak in PEAK_TFLOPS.items() if re.fullmatch(card, name)), None)


class Cost:
    """The FLOPs of forward and backward of a model whose call returns the loss.

    Counted once for each shape of inputs, on a copy without memory (torch's device `meta`): matrix products,
    convolutions and attention, a multiplication and an addition being two. What --recompute does twice counts once, and
    of causal attention all pairs count, as is usual.
    """

    def __init__(self, make: Callable[[], nn.Module]) -> None:
        self._make = make
        self._net: nn.Module | None = None
        self._known: dict[tuple[torch.Size, ...], float] = {}

    def __call__(self, *inputs: Any) -> float:
        shapes = tuple(one.shape for one in inputs if isinstance(one, torch.Tensor))
        if shapes not in self._known:
            self._known[shapes] = self._count(inputs)
        return self._known[shapes]

    def _count(self, inputs: Any) -> float:
        if self._net is None:
            with torch.device("meta"):
                self._net = self._make().train()
        counter = FlopCounterMode(display=False)
        with counter:
            self._net(*tree_map(_without_memory, inputs)).backward()
        self._net.zero_grad()
        return float(counter.get_total_flops())


def _without_memory(value: Any) -> Any:
    return value.to("meta") if isinstance(value, torch.Tensor) else value
