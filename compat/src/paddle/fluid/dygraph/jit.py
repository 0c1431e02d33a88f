"""Layers and functions that can be saved; they run as the Python that they are."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.jit": "TracedLayer TranslatedLayer load save"},
    renamed={"declarative": "fleet_paddle.jit:to_static", "dygraph_to_static_func": "fleet_paddle.jit:to_static"},
)
