"""Optimizers: of tensors if parameters are given, else of programs."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.optimizer": "*", "fleet_paddle.imperative.optimizer": "Optimizer"},
    parts="lr optimizer",
    refused={"LBFGS": "use torch.optim.LBFGS"},
)
