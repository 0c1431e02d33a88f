"""Which server holds which block."""

from paddle._alias import same_as

same_as(__name__, "paddle.fluid.transpiler.ps_dispatcher")
