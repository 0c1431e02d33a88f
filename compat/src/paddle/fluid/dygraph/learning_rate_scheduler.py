"""Learning-rate schedules, which move on at each `minimize`, or when the script says that an epoch is over."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.fluid.epochs": "LambdaDecay MultiStepDecay ReduceLROnPlateau StepDecay",
        "fleet_paddle.fluid.rates": "*",
    },
)
