"""Linear algebra, of tensors and of programs."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.imperative": "cholesky multi_dot norm", "fleet_paddle.linalg": "*"},
    renamed={"inv": "fleet_paddle.imperative:inverse"},
)
