"""Training without a loop."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.hapi.flops": "flops",
        "fleet_paddle.hapi.model": "Model",
        "fleet_paddle.hapi.summary": "summary",
    },
    parts="callbacks model",
)
