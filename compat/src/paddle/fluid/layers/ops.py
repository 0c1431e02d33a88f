"""Functions of each element."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.fluid.layers": "abs acos asin atan ceil cos cosh cumsum erf exp floor gelu hard_shrink "
        "logsigmoid reciprocal round rsqrt sigmoid sin sinh softplus softshrink softsign sqrt square tanh "
        "tanh_shrink thresholded_relu uniform_random",
    },
)
