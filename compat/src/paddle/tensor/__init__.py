"""Functions of tensors, under the module that they are written in."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.imperative.functions.table": "*",
        "fleet_paddle.imperative.creation": "*",
        "fleet_paddle.imperative.arrays": "create_array",
        "fleet_paddle.fluid.layers": "array_length array_read array_write",
    },
    renamed={"Tensor": "fleet_paddle.imperative:Tensor"},
    parts="attribute creation linalg logic manipulation math random search stat",
)
