"""The passes that make a server's program; a server makes its own when it is run."""

from paddle._alias import alias

alias(
    __name__,
    refused=dict.fromkeys(
        (
            "add_geo_optimizer_pass",
            "add_listen_and_serv_pass",
            "add_optimizer_pass",
            "add_recv_inputs_pass",
            "add_rpc_global_flags_pass",
            "build_pserver_startup_program_pass",
            "delete_unused_in_startup_pass",
            "large_scale_sparse_pass",
        ),
        "fleet.run_server() needs no program, or by hand DistributeTranspiler.transpile and get_pserver_program",
    ),
)
