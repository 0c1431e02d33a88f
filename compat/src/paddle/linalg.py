"""Linear algebra over tensors."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.imperative": "cholesky norm"},
    renamed={"inv": "fleet_paddle.imperative:inverse"},
)
