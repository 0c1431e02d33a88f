"""Where imperative mode begins and ends."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.dygraph": "to_variable", "fleet_paddle.mode": "guard", "fleet_paddle.imperative": "grad no_grad"},
    renamed={
        "disable_dygraph": "fleet_paddle.mode:enable_static",
        "enable_dygraph": "fleet_paddle.mode:disable_static",
        "enabled": "fleet_paddle.mode:is_dynamic",
    },
)
