"""Residual networks: blocks whose result is added to what came in."""

from __future__ import annotations

from typing import Any, ClassVar

from fleet.errors import UsageError
from fleet_paddle.imperative import nn
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.vision.models.untrained import untrained

__all__ = [
    "BasicBlock",
    "BottleneckBlock",
    "ResNet",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "wide_resnet50_2",
    "wide_resnet101_2",
]

_DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


class BasicBlock(nn.Layer):
    """Two convolutions of 3 x 3."""

    expansion: ClassVar[int] = 1

    def __init__(
        self, inplanes: int, planes: int, stride: int = 1, downsample: Any = None, base_width: int = 64
    ) -> None:
        super().__init__()
        if base_width != 64:
            raise UsageError(f"BasicBlock: base_width must be 64, got {base_width}; take BottleneckBlock")
        self.conv1 = nn.Conv2D(inplanes, planes, 3, stride=stride, padding=1, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(planes)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2D(planes, planes, 3, padding=1, bias_attr=False)
        self.bn2 = nn.BatchNorm2D(planes)
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Any) -> Any:
        made = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return F.relu(made + (x if self.downsample is None else self.downsample(x)))


class BottleneckBlock(nn.Layer):
    """A convolution of 3 x 3 between two of 1 x 1, the last four times as wide."""

    expansion: ClassVar[int] = 4

    def __init__(
        self, inplanes: int, planes: int, stride: int = 1, downsample: Any = None, base_width: int = 64
    ) -> None:
        super().__init__()
        width = planes * base_width // 64
        self.conv1 = nn.Conv2D(inplanes, width, 1, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(width)
        self.conv2 = nn.Conv2D(width, width, 3, stride=stride, padding=1, bias_attr=False)
        self.bn2 = nn.BatchNorm2D(width)
        self.conv3 = nn.Conv2D(width, planes * self.expansion, 1, bias_attr=False)
        self.bn3 = nn.BatchNorm2D(planes * self.expansion)
        self.relu = nn.ReLU()
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Any) -> Any:
        made = self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))
        made = self.bn3(self.conv3(made))
        return F.relu(made + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Layer):
    """`depth` layers of one kind of block; the last layers are left out without `with_pool` or classes."""

    def __init__(
        self, block: Any, depth: int = 50, width: int = 64, num_classes: int = 1000, with_pool: bool = True
    ) -> None:
        super().__init__()
        if depth not in _DEPTHS:
            raise UsageError(f"ResNet: depth must be one of {', '.join(map(str, _DEPTHS))}, got {depth}")
        self.num_classes, self.with_pool, self._width, self._before = num_classes, with_pool, width, 64
        self.conv1 = nn.Conv2D(3, 64, 7, stride=2, padding=3, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2D(3, stride=2, padding=1)
        for number, count in enumerate(_DEPTHS[depth]):
            self.add_sublayer(f"layer{number + 1}", self._stage(block, 64 * 2**number, count, 1 if number == 0 else 2))
        if with_pool:
            self.avgpool = nn.AdaptiveAvgPool2D((1, 1))
        if num_classes > 0:
            self.fc = nn.Linear(512 * block.expansion, num_classes)

    def _stage(self, block: Any, planes: int, count: int, stride: int) -> Any:
        made, after = [], planes * block.expansion
        for number in range(count):
            step = stride if number == 0 else 1
            shortcut = None
            if step != 1 or self._before != after:
                shortcut = nn.Sequential(
                    nn.Conv2D(self._before, after, 1, stride=step, bias_attr=False), nn.BatchNorm2D(after)
                )
            made.append(block(self._before, planes, step, shortcut, base_width=self._width))
            self._before = after
        return nn.Sequential(*made)

    def forward(self, x: Any) -> Any:
        made = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for number in range(len(_DEPTHS[18])):
            made = self._modules[f"layer{number + 1}"](made)  # type: ignore[misc]
        if self.with_pool:
            made = self.avgpool(made)
        return self.fc(made.flatten(1)) if self.num_classes > 0 else made


def resnet18(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet with 18 layers."""
    return untrained(ResNet(BasicBlock, 18, **kwargs), pretrained)


def resnet34(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet with 34 layers."""
    return untrained(ResNet(BasicBlock, 34, **kwargs), pretrained)


def resnet50(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet with 50 layers."""
    return untrained(ResNet(BottleneckBlock, 50, **kwargs), pretrained)


def resnet101(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet with 101 layers."""
    return untrained(ResNet(BottleneckBlock, 101, **kwargs), pretrained)


def resnet152(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet with 152 layers."""
    return untrained(ResNet(BottleneckBlock, 152, **kwargs), pretrained)


def wide_resnet50_2(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet with 50 layers, blocks twice as wide inside."""
    return untrained(ResNet(BottleneckBlock, 50, width=128, **kwargs), pretrained)


def wide_resnet101_2(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet with 101 layers, blocks twice as wide inside."""
    return untrained(ResNet(BottleneckBlock, 101, width=128, **kwargs), pretrained)
