"""The states of layers and optimizers as files."""

from paddle._alias import alias

alias(__name__, {"fleet.either.dygraph": "load_dygraph save_dygraph"})
