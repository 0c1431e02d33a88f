"""Jobs with servers."""

from paddle._alias import alias

alias(
    __name__,
    parts="distribute_transpiler ir mode",
    refused={"pslib": "use paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler, with is_sparse=True"},
)
