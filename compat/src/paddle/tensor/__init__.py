"""Functions of tensors, under the module that they are written in."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.imperative.functions.table": "*", "fleet_paddle.imperative.creation": "*"},
    renamed={"Tensor": "fleet_paddle.imperative:Tensor"},
    parts="attribute creation linalg logic manipulation math random search stat",
)
