"""Distributions of tensors and of variables."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.distribution": "Categorical Distribution Normal Uniform"})
