"""VGG: rows of small convolutions, halved in size between them, then three linear layers."""

from __future__ import annotations

from typing import Any

from fleet_paddle.imperative import nn
from fleet_paddle.vision.models.untrained import untrained

__all__ = ["VGG", "vgg11", "vgg13", "vgg16", "vgg19"]

_WIDTHS = (64, 128, 256, 512, 512)
_DEPTHS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


class VGG(nn.Layer):
    """`features`, then a pool to 7 x 7 if `with_pool`, then a classifier unless there are no classes."""

    def __init__(self, features: Any, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.features, self.num_classes, self.with_pool = features, num_classes, with_pool
        if with_pool:
            self.avgpool = nn.AdaptiveAvgPool2D((7, 7))
        if num_classes > 0:
            self.classifier = nn.Sequential(
                nn.Linear(512 * 7 * 7, 4096),
                nn.ReLU(),
                nn.Dropout(),
                nn.Linear(4096, 4096),
                nn.ReLU(),
                nn.Dropout(),
                nn.Linear(4096, num_classes),
            )

    def forward(self, x: Any) -> Any:
        found = self.features(x)
        if self.with_pool:
            found = self.avgpool(found)
        return self.classifier(found.flatten(1)) if self.num_classes > 0 else found


def _features(depth: int, batch_norm: bool) -> Any:
    layers: list[Any] = []
    before = 3
    for width, count in zip(_WIDTHS, _DEPTHS[depth], strict=True):
        for _ in range(count):
            layers.append(nn.Conv2D(before, width, 3, padding=1))
            layers += [nn.BatchNorm2D(width), nn.ReLU()] if batch_norm else [nn.ReLU()]
            before = width
        layers.append(nn.MaxPool2D(2, 2))
    return nn.Sequential(*layers)


def vgg11(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG with 11 layers."""
    return untrained(VGG(_features(11, batch_norm), **kwargs), pretrained)


def vgg13(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG with 13 layers."""
    return untrained(VGG(_features(13, batch_norm), **kwargs), pretrained)


def vgg16(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG with 16 layers."""
    return untrained(VGG(_features(16, batch_norm), **kwargs), pretrained)


def vgg19(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG with 19 layers."""
    return untrained(VGG(_features(19, batch_norm), **kwargs), pretrained)
