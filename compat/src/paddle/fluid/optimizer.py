"""Optimizers of programs, and of tensors if they are given some."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.fluid.optimizer": "*",
        "fleet_programs.optimizer.moving_average": "ExponentialMovingAverage",
        "fleet_paddle.programs.optimizers.around": "GradientMergeOptimizer LookaheadOptimizer",
        "fleet_paddle.programs.optimizers.model_average": "ModelAverage",
        "fleet_paddle.programs.optimizers.recomputing": "RecomputeOptimizer",
    },
    refused={
        "DGCMomentumOptimizer": "train a torch module with strategy.dgc = True",
        "Dpsgd": "use SGD",
        "DpsgdOptimizer": "use SGD",
        "PipelineOptimizer": "start one worker for each device: fleetrun",
    },
)
