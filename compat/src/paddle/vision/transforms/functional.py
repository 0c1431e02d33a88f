"""Changes of images, as functions."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.vision.transforms.functional": "*"},
    renamed={
        "_is_numpy_image": "fleet_paddle.vision.images:is_array",
        "_is_pil_image": "fleet_paddle.vision.images:is_pil",
    },
)
