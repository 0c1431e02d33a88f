"""Networks of small convolutions, under the module that they are written in."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.vision.models.vgg": "*"})
