"""First values of parameters."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.imperative.nn.initializer": "*"},
    renamed={"Bilinear": "fleet.static.initializer:Bilinear", "calculate_gain": "torch.nn.init:calculate_gain"},
    refused={
        "Dirac": "fill the weight after the layer is made: torch.nn.init.dirac_(layer.weight)",
        "Orthogonal": "fill the weight after the layer is made: torch.nn.init.orthogonal_(layer.weight)",
        "set_global_initializer": "give each parameter its own: ParamAttr(initializer=...)",
    },
)
