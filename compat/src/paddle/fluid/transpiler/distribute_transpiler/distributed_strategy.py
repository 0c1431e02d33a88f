"""How workers and servers come together."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.server_strategy": "StrategyFactory TrainerRuntimeConfig"},
    renamed={"DistributedStrategy": "fleet_paddle.server_strategy:ServerStrategy"},
    refused={
        **dict.fromkeys(
            ("AsyncStrategy", "GeoStrategy", "HalfAsyncStrategy", "SyncStrategy"),
            "use StrategyFactory.create_*_strategy()",
        ),
        "ServerRuntimeConfig": "a server has as many threads as its machine has cores",
    },
)
