"""Networks that classify images, made anew: weights that were trained elsewhere are not downloaded."""
# ruff: noqa: F403  (a name is listed once, where it is made)

from __future__ import annotations

from fleet_paddle.vision.models import lenet, mobilenet, resnet, vgg
from fleet_paddle.vision.models.lenet import *
from fleet_paddle.vision.models.mobilenet import *
from fleet_paddle.vision.models.resnet import *
from fleet_paddle.vision.models.vgg import *

__all__: list[str] = []
__all__ += lenet.__all__
__all__ += mobilenet.__all__
__all__ += resnet.__all__
__all__ += vgg.__all__
