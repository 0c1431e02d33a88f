"""Changes of images, as functions."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.vision.transforms.functional": "*"})
