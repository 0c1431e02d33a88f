"""Fields of collective training: how workers bring gradients or parameters together."""

from fleet.strategy.field import number, numbers, switch, text, whole
from fleet.strategy.record import Group, GroupField, StrategyRecord


class LocalSGDConfigs(Group):
    """LocalSGD with a fixed interval."""

    k_steps = whole(1, "is the number of local steps between two averages.", least=1)
    begin_step = whole(1, "is the step up to which parameters are averaged at every step.", least=0)


class AdaptiveLocalSGDConfigs(Group):
    """LocalSGD whose interval follows the loss."""

    init_k_steps = whole(1, "is the first interval; later ones lie between 1 and 16.", least=1)
    begin_step = whole(1, "is the step up to which parameters are averaged at every step.", least=0)


class PostLocalConfigs(Group):
    """Local steps joined by an outer optimizer (DiLoCo)."""

    k_steps = whole(16, "is the number of local steps between two meetings.", least=1)
    begin_step = whole(0, "is the number of steps with averaged gradients before workers train alone.", least=0)
    outer_lr = number(0.7, "is the learning rate of the outer optimizer.", above=0)
    outer_momentum = number(0.9, "is the momentum of the outer optimizer.", least=0, below=1)
    nesterov = switch(True, "gives the outer optimizer Nesterov's momentum.")


class DGCConfigs(Group):
    """Deep gradient compression."""

    rampup_begin_step = whole(0, "is the step at which compression begins.", least=0)
    rampup_step = whole(1, "is the number of steps over which the sparsity list is walked through.", least=1)
    sparsity = numbers(
        "lists the shares of gradient values held back, one per stage of the ramp. Empty means [0.999].",
        least=0,
        below=1,
    )


class GradientMergeConfigs(Group):
    """Several batches, one update."""

    k_steps = whole(1, "is the number of batches whose gradients make one update.", least=1)
    avg = switch(True, "averages the merged gradients; False adds them up.")


class CollectiveFields(StrategyRecord):
    """The part of the strategy about collectives."""

    localsgd = switch(False, "trains locally and averages parameters every few steps instead of gradients every step.")
    localsgd_configs = GroupField(LocalSGDConfigs, "tunes `localsgd`.")
    adaptive_localsgd = switch(False, "is LocalSGD with an interval that grows and shrinks with the loss.")
    adaptive_localsgd_configs = GroupField(AdaptiveLocalSGDConfigs, "tunes `adaptive_localsgd`.")
    post_local = switch(False, "trains locally and lets an outer optimizer bring the workers together, as DiLoCo does.")
    post_local_configs = GroupField(PostLocalConfigs, "tunes `post_local`.")
    dgc = switch(
        False, "sends only the largest gradient values and keeps the rest for later. Needs a momentum optimizer."
    )
    dgc_configs = GroupField(DGCConfigs, "tunes `dgc`.")
    gradient_merge = switch(False, "adds up the gradients of several batches before one update.")
    gradient_merge_configs = GroupField(GradientMergeConfigs, "tunes `gradient_merge`.")
    fp16_allreduce = switch(False, "halves the traffic by casting gradients to half precision on the way.")
    allreduce_dtype = text("float16", "is the half precision of `fp16_allreduce`.", "float16", "bfloat16")

    fuse_all_reduce_ops = switch(
        True, "reduces gradients in buckets while backward is still running; False reduces each alone."
    )
    fuse_grad_size_in_MB = whole(  # noqa: N815
        32, "is the size of a gradient bucket in MB. 0 reduces each gradient alone.", least=0
    )
    last_comm_group_size_MB = number(1.0, "is the size in MB of the bucket that is reduced last.", above=0)  # noqa: N815
    nccl_comm_num = whole(
        1,
        "changes nothing: one communicator carries gradients in buckets, which NCCL spreads over its own channels.",
        least=1,
    )
    find_unused_parameters = switch(False, "allows parameters that take no part in a forward pass.")
