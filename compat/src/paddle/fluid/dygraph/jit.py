"""Layers made into programs: nothing of it is here."""

from paddle._alias import alias

alias(
    __name__,
    refused={
        "TracedLayer": "make it a program: paddle.enable_static(), then call the layer with static.data",
        "declarative": "write the program with fluid.layers",
        "dygraph_to_static_func": "write the program with fluid.layers",
    },
)
