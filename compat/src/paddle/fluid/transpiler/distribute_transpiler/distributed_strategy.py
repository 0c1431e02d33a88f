"""How workers and servers come together."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs.transpiler": "DistributeTranspilerConfig",
        "fleet_paddle.strategies.runtime_config": "ServerRuntimeConfig TrainerRuntimeConfig",
        "fleet_paddle.strategies.server_modes": "AsyncStrategy GeoStrategy HalfAsyncStrategy StrategyFactory "
        "SyncStrategy",
    },
    renamed={"DistributedStrategy": "fleet_paddle.strategies.server_strategy:ServerStrategy"},
)
