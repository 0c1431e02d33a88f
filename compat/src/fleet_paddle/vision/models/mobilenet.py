"""MobileNets: convolutions of each channel by itself, then of 1 x 1 across them."""

from __future__ import annotations

from typing import Any

from fleet_paddle.imperative import nn
from fleet_paddle.vision.models.untrained import untrained

__all__ = ["MobileNetV1", "MobileNetV2", "mobilenet_v1", "mobilenet_v2"]

_V1 = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
"""Channels and stride of each pair of convolutions."""

_V2 = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""How much wider inside, channels, blocks, and stride of the first block."""


def _convolution(before: int, after: int, size: int, stride: int, groups: int, last: Any) -> Any:
    layers = [
        nn.Conv2D(before, after, size, stride=stride, padding=(size - 1) // 2, groups=groups, bias_attr=False),
        nn.BatchNorm2D(after),
    ]
    return nn.Sequential(*layers) if last is None else nn.Sequential(*layers, last())


class MobileNetV1(nn.Layer):
    """The first: 13 pairs of convolutions; `scale` is a factor on all channels."""

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.scale, self.num_classes, self.with_pool = scale, num_classes, with_pool
        before = int(32 * scale)
        layers = [_convolution(3, before, 3, 2, 1, nn.ReLU)]
        for width, stride in _V1:
            after = int(width * scale)
            layers.append(_convolution(before, before, 3, stride, before, nn.ReLU))
            layers.append(_convolution(before, after, 1, 1, 1, nn.ReLU))
            before = after
        self.features = nn.Sequential(*layers)
        if with_pool:
            self.pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.fc = nn.Linear(before, num_classes)

    def forward(self, x: Any) -> Any:
        made = self.features(x)
        if self.with_pool:
            made = self.pool2d_avg(made)
        return self.fc(made.flatten(1)) if self.num_classes > 0 else made


class _Inverted(nn.Layer):
    """Wider, by channel, narrow again; added to what came in where the shapes are the same."""

    def __init__(self, before: int, after: int, stride: int, factor: int) -> None:
        super().__init__()
        inside = before * factor
        layers = [] if factor == 1 else [_convolution(before, inside, 1, 1, 1, nn.ReLU6)]
        layers.append(_convolution(inside, inside, 3, stride, inside, nn.ReLU6))
        layers.append(_convolution(inside, after, 1, 1, 1, None))
        self.conv = nn.Sequential(*layers)
        self._is_added = stride == 1 and before == after

    def forward(self, x: Any) -> Any:
        return x + self.conv(x) if self._is_added else self.conv(x)


class MobileNetV2(nn.Layer):
    """The second: blocks that are wide inside; `scale` is a factor on all channels."""

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.num_classes, self.with_pool = num_classes, with_pool
        before = _by_eights(32 * scale)
        last = _by_eights(1280 * max(1.0, scale))
        layers = [_convolution(3, before, 3, 2, 1, nn.ReLU6)]
        for factor, width, count, stride in _V2:
            after = _by_eights(width * scale)
            for number in range(count):
                layers.append(_Inverted(before, after, stride if number == 0 else 1, factor))
                before = after
        layers.append(_convolution(before, last, 1, 1, 1, nn.ReLU6))
        self.features = nn.Sequential(*layers)
        if with_pool:
            self.pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, num_classes))

    def forward(self, x: Any) -> Any:
        made = self.features(x)
        if self.with_pool:
            made = self.pool2d_avg(made)
        return self.classifier(made.flatten(1)) if self.num_classes > 0 else made


def _by_eights(channels: float) -> int:
    """The nearest multiple of 8 that is no more than a tenth below."""
    found = max(8, int(channels + 4) // 8 * 8)
    return found + 8 if found < 0.9 * channels else found


def mobilenet_v1(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV1:
    """The first MobileNet."""
    return untrained(MobileNetV1(scale, **kwargs), pretrained)


def mobilenet_v2(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV2:
    """The second MobileNet."""
    return untrained(MobileNetV2(scale, **kwargs), pretrained)
