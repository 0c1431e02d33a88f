"""Tensors made, joined and filled."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs": "Variable",
        "fleet_paddle.fluid.layers": "argmax argmin argsort assign cast concat create_global_var create_parameter "
        "create_tensor eye fill_constant fill_constant_batch_size_like has_inf has_nan isfinite linspace ones "
        "ones_like range reverse sum sums zeros zeros_like",
    },
)
