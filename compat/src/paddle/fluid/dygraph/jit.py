"""Layers made into programs: nothing of it is here."""

from paddle._alias import alias

alias(
    __name__,
    refused={
        "TracedLayer": "use torch.jit.trace on the layer",
        "declarative": "write the program with fluid.layers",
        "dygraph_to_static_func": "write the program with fluid.layers",
    },
)
