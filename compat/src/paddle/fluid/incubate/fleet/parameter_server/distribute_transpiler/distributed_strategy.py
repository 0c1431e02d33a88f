"""How workers and servers come together."""

from paddle._alias import same_as

same_as(__name__, "paddle.fluid.transpiler.distribute_transpiler.distributed_strategy")
