"""MobileNet, first version, under the module that it is written in."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.vision.models.mobilenet": "*"})
