"""Datasets of images."""

from paddle._alias import alias

alias(
    __name__, {"fleet_paddle.vision.datasets": "*"}, refused={"VOC2012": "read its folder with a dataset of your own"}
)
