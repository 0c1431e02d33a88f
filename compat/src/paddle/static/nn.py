"""Layers that add operators to the default program, each argument in the spelling of 1.x or of 2.0."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.programs.nn": "*"},
    renamed={
        "case": "fleet_paddle.fluid.layers:case",
        "cond": "fleet_paddle.fluid.layers:cond",
        "switch_case": "fleet_paddle.fluid.layers:switch_case",
        "while_loop": "fleet_paddle.fluid.layers:while_loop",
    },
    refused={
        "deform_conv2d": "use conv2d",
        "multi_box_head": "use conv2d",
    },
)
