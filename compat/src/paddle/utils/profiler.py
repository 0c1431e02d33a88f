"""Where the time goes."""

from paddle._alias import same_as

same_as(__name__, "paddle.fluid.profiler")
