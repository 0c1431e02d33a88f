"""Changes of images: as functions, `functional`, and as objects to be put together, `Compose`."""
# ruff: noqa: F403  (a name is listed once, where it is made)

from __future__ import annotations

from fleet_paddle.vision.transforms import base, colour, functional, geometry
from fleet_paddle.vision.transforms.base import *
from fleet_paddle.vision.transforms.colour import *
from fleet_paddle.vision.transforms.functional import *
from fleet_paddle.vision.transforms.geometry import *

__all__: list[str] = []
__all__ += base.__all__
__all__ += colour.__all__
__all__ += functional.__all__
__all__ += geometry.__all__
