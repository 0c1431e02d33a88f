"""Changes of images."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.vision.transforms": "*"}, parts="functional transforms")
