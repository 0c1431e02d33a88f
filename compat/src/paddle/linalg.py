"""Linear algebra over tensors."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.imperative": "cholesky multi_dot norm"},
    renamed={"inv": "fleet_paddle.imperative:inverse"},
)
