"""Changes of images, as objects."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.vision.transforms": "*"})
