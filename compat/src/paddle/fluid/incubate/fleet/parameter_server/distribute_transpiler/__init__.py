"""Jobs with servers, cut by the transpiler."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.jobs.older_fleet": "TranspilerOptimizer fleet",
        "fleet_paddle.strategies.runtime_config": "ServerRuntimeConfig TrainerRuntimeConfig",
        "fleet_paddle.strategies.server_modes": "AsyncStrategy GeoStrategy HalfAsyncStrategy StrategyFactory "
        "SyncStrategy",
        "fleet_programs.transpiler": "DistributeTranspilerConfig",
    },
    renamed={"DistributedMode": "fleet.strategy:Mode"},
    parts="distributed_strategy",
)
