"""Regularizers."""

from paddle._alias import alias

alias(__name__, {"fleet.static.regularizer": "L1Decay L1DecayRegularizer L2Decay L2DecayRegularizer"})
