"""Networks that classify images."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.vision.models": "*"}, parts="lenet mobilenetv1 mobilenetv2 resnet vgg")
