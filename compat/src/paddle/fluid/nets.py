"""Small networks made of layers."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.fluid.layers": "glu img_conv_group scaled_dot_product_attention sequence_conv_pool "
        "simple_img_conv_pool",
    },
)
