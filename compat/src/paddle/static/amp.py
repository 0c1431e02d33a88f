"""Mixed precision in programs."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.programs.optimizers.mixed": "AutoMixedPrecisionLists decorate fp16_guard"},
    renamed={"CustomOpLists": "fleet_paddle.programs.optimizers.mixed:AutoMixedPrecisionLists"},
)
