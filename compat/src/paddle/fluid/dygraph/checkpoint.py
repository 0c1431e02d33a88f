"""The states of layers and optimizers as files."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.dygraph": "load_dygraph save_dygraph"})
