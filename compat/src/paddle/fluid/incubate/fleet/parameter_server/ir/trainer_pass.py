"""The passes that make a worker's program; `minimize` of a distributed optimizer runs them all."""

from paddle._alias import alias

alias(
    __name__,
    refused=dict.fromkeys(
        (
            "append_send_ops_pass",
            "delet_extra_optimizes_pass",
            "delete_optimizer_pass",
            "distributed_ops_pass",
            "fake_init_ops_pass",
            "init_from_server_pass",
        ),
        "fleet.distributed_optimizer(optimizer, strategy).minimize(loss) makes the worker's program, or by hand "
        "DistributeTranspiler.transpile and get_trainer_program",
    ),
)
