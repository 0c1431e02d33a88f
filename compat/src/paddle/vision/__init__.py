"""Images: datasets, networks, changes."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.vision.images": "get_image_backend image_load set_image_backend",
        "fleet_paddle.vision.models": "*",
        "fleet_paddle.vision.datasets": "*",
        "fleet_paddle.vision.transforms": "*",
    },
    parts="datasets models transforms",
    renamed={"image": "fleet_paddle.vision.images"},
    refused={"ops": "use torchvision.ops: layers and tensors here are torch's"},
)
