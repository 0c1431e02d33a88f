"""Optimizers of programs, and of tensors if they are given some."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.fluid.optimizer": "*", "fleet.static.moving_average": "ExponentialMovingAverage"},
    renamed={
        "GradientMergeOptimizer": "fleet_paddle.programs.around:GradientMergeOptimizer",
        "LookaheadOptimizer": "fleet_paddle.programs.around:LookaheadOptimizer",
        "RecomputeOptimizer": "fleet_paddle.programs.recomputing:RecomputeOptimizer",
    },
    refused={
        "DGCMomentumOptimizer": "train a torch module with strategy.dgc = True",
        "Dpsgd": "use SGD",
        "DpsgdOptimizer": "use SGD",
        "ModelAverage": "keep an average of parameters in the script: scope.find_var(name).get_tensor()",
        "PipelineOptimizer": "start one worker for each device: fleetrun",
    },
)
