"""Regularizers."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet.static.regularizer": "L1Decay L2Decay"},
    renamed={
        "L1DecayRegularizer": "fleet.static.regularizer:L1Decay",
        "L2DecayRegularizer": "fleet.static.regularizer:L2Decay",
        "WeightDecayRegularizer": "fleet.static.variable:Penalty",
    },
)
