"""Regularizers."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_programs.parameters.regularizer": "L1Decay L2Decay"},
    renamed={
        "L1DecayRegularizer": "fleet_programs.parameters.regularizer:L1Decay",
        "L2DecayRegularizer": "fleet_programs.parameters.regularizer:L2Decay",
        "WeightDecayRegularizer": "fleet_programs.program.variable:Penalty",
    },
)
