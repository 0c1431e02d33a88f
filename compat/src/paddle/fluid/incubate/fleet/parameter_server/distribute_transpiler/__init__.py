"""Jobs with servers, cut by the transpiler."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.older_fleet": "fleet",
        "fleet_paddle.server_strategy": "StrategyFactory TrainerRuntimeConfig",
        "fleet.transpiler": "DistributeTranspilerConfig",
    },
    parts="distributed_strategy",
)
