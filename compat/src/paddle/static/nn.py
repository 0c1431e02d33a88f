"""Layers that add operators to the default program, each argument in the spelling of 1.x or of 2.0."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.programs.nn": "*"},
    refused={
        "case": "build two programs and run the one that is wanted",
        "cond": "build two programs and run the one that is wanted",
        "conv3d_transpose": "use conv2d_transpose",
        "deform_conv2d": "use conv2d",
        "multi_box_head": "use conv2d",
        "py_func": "register an operator in Python: fleet.static.registry.register",
        "spectral_norm": "use layer_norm",
        "switch_case": "build two programs and run the one that is wanted",
        "while_loop": "run the program in a loop",
    },
)
