"""Learning rates that the program computes."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.fluid.layers": "cosine_decay exponential_decay inverse_time_decay linear_lr_warmup "
        "natural_exp_decay noam_decay piecewise_decay polynomial_decay",
    },
    renamed={"_decay_step_counter": "fleet_paddle.programs.step_counter:decay_step_counter"},
)
