"""What layers of scripts are written with."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.fluid.layer_helper": "LayerHelper", "fleet_paddle.mode": "in_dygraph_mode"})
