"""Jobs with servers, cut by the transpiler."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet.either.older_fleet": "fleet",
        "fleet.either.server_strategy": "StrategyFactory TrainerRuntimeConfig",
        "fleet.transpiler": "DistributeTranspilerConfig",
    },
    parts="distributed_strategy",
)
