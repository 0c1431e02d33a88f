"""The transpiler and its settings."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs.transpiler": "DistributeTranspiler DistributeTranspilerConfig",
        "fleet_paddle.strategies.runtime_config": "ServerRuntimeConfig",
    },
    renamed={"DistributedMode": "fleet.strategy:Mode"},
    parts="distributed_strategy",
)
