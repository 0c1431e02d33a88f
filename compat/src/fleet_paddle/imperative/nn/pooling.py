"""Pooling as layers: one value for each window."""

from __future__ import annotations

from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.of_function import FunctionLayer

__all__ = [
    "AdaptiveAvgPool1D",
    "AdaptiveAvgPool2D",
    "AdaptiveAvgPool3D",
    "AdaptiveMaxPool1D",
    "AdaptiveMaxPool2D",
    "AdaptiveMaxPool3D",
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
]


class MaxPool1D(FunctionLayer):
    """The greatest value of each window of a sequence."""

    function = staticmethod(F.max_pool1d)


class MaxPool2D(FunctionLayer):
    """The greatest value of each window of an image."""

    function = staticmethod(F.max_pool2d)


class MaxPool3D(FunctionLayer):
    """The greatest value of each window of a volume."""

    function = staticmethod(F.max_pool3d)


class AvgPool1D(FunctionLayer):
    """The mean of each window of a sequence; with `exclusive` zeros of the padding do not count."""

    function = staticmethod(F.avg_pool1d)


class AvgPool2D(FunctionLayer):
    """The mean of each window of an image; with `exclusive` zeros of the padding do not count."""

    function = staticmethod(F.avg_pool2d)


class AvgPool3D(FunctionLayer):
    """The mean of each window of a volume; with `exclusive` zeros of the padding do not count."""

    function = staticmethod(F.avg_pool3d)


class AdaptiveAvgPool1D(FunctionLayer):
    """The means of as many windows of a sequence as `output_size` says."""

    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2D(FunctionLayer):
    """The means of as many windows of an image as `output_size` says."""

    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3D(FunctionLayer):
    """The means of as many windows of a volume as `output_size` says."""

    function = staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool1D(FunctionLayer):
    """The greatest values of as many windows of a sequence as `output_size` says."""

    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2D(FunctionLayer):
    """The greatest values of as many windows of an image as `output_size` says."""

    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3D(FunctionLayer):
    """The greatest values of as many windows of a volume as `output_size` says."""

    function = staticmethod(F.adaptive_max_pool3d)
