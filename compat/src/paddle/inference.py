"""Predictors of saved models."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.inference": "Config PrecisionType Predictor create_predictor"},
    renamed={"Tensor": "fleet_paddle.inference:Handle"},
)
