"""Distributions of variables and of tensors."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.distribution": "Categorical MultivariateNormalDiag Normal Uniform"})
