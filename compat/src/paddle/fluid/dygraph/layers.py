"""What every layer is."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.dygraph": "Layer"})
