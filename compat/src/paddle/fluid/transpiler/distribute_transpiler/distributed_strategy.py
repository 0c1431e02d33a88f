"""How workers and servers come together."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs.transpiler": "DistributeTranspilerConfig",
        "fleet_paddle.runtime_config": "ServerRuntimeConfig TrainerRuntimeConfig",
        "fleet_paddle.server_modes": "AsyncStrategy GeoStrategy HalfAsyncStrategy StrategyFactory SyncStrategy",
    },
    renamed={"DistributedStrategy": "fleet_paddle.server_strategy:ServerStrategy"},
)
