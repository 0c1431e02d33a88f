"""Datasets of images: read from FLEET_DATA_HOME or from files that are given, else made up, which is said once."""
# ruff: noqa: F403  (a name is listed once, where it is made)

from __future__ import annotations

from fleet_paddle.vision.datasets import flowers, folder, small
from fleet_paddle.vision.datasets.flowers import *
from fleet_paddle.vision.datasets.folder import *
from fleet_paddle.vision.datasets.small import *

__all__: list[str] = []
__all__ += flowers.__all__
__all__ += folder.__all__
__all__ += small.__all__
