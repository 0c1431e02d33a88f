"""The model, and what describes its inputs."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.hapi.model": "Model", "fleet_paddle.hapi.spec": "InputSpec", "fleet_paddle.hapi.summary": "summary"},
    renamed={"Input": "fleet_paddle.hapi.spec:InputSpec"},
)
