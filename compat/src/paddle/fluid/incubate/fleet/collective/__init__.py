"""Jobs without servers."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.jobs.older_fleet": "fleet"},
    renamed={"DistributedStrategy": "fleet_paddle.strategies.collective_strategy:CollectiveStrategy"},
    refused={
        "CollectiveOptimizer": "use fleet.distributed_optimizer(optimizer, strategy)",
        "DistFCConfig": "train a torch module",
        "LambConfig": "use fluid.optimizer.Lamb",
    },
)
