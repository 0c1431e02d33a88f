"""Where tensors are."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.imperative": "get_device is_compiled_with_cuda set_device"})
