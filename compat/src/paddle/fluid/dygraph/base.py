"""Where imperative mode begins and ends."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet.either.dygraph": "to_variable", "fleet.either.mode": "guard", "fleet.imperative": "grad no_grad"},
    renamed={
        "disable_dygraph": "fleet.either.mode:enable_static",
        "enable_dygraph": "fleet.either.mode:disable_static",
        "enabled": "fleet.either.mode:is_dynamic",
    },
)
