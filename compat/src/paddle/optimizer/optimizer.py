"""What all optimizers of tensors are."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.imperative.optimizer": "Optimizer"})
