"""Fields for every kind of job, collective or with servers."""

from fleet.strategy.field import maybe_number, switch, text
from fleet.strategy.record import Group, GroupField, StrategyRecord


class GradientScaleConfigs(Group):
    """How the workers' gradients are scaled."""

    scale_strategy = text(
        "avg",
        "says what becomes of the workers' gradients: their mean, their sum, or a scale the user applies. With servers "
        "in sync mode; in the other modes each push counts by itself.",
        "avg",
        "sum",
        "customized",
    )


class CommonFields(StrategyRecord):
    """The part of the strategy that holds with servers and without."""

    nonfinite_gradients = text(
        "error",
        "says what a NaN or an Inf in a gradient does: it is an error, or the step is skipped and counted. With "
        "servers nothing is sent in the first case, and in the second such rows and dense steps are left out.",
        "error",
        "skip",
    )
    clip_norm = maybe_number(
        "is the largest norm of all gradients of an `optimizer.step()` together; longer ones are scaled down. With "
        "servers rows are among them, and in sync mode the norm is that of the mean over all workers, in the other "
        "modes that of each worker's own gradients.",
        above=0,
    )
    gradient_scale_configs = GroupField(GradientScaleConfigs, "says how the workers' gradients are scaled.")
    sync_batch_norm = switch(False, "computes batch-norm statistics over the batch of all workers.")
