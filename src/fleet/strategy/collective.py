"""Fields of collective training: how workers bring gradients or parameters together."""

from __future__ import annotations

from fleet.strategy.field import number, numbers, switch, text, whole
from fleet.strategy.group import Group, GroupField
from fleet.strategy.record import Record


class LocalSGD(Group):
    """LocalSGD with a fixed interval."""

    k_steps = whole(1, "is the number of local steps between two averages.", least=1, built=True)
    begin_step = whole(1, "is the step up to which parameters are averaged at every step.", least=0, built=True)


class AdaptiveLocalSGD(Group):
    """LocalSGD whose interval follows the loss."""

    init_k_steps = whole(1, "is the first interval; later ones lie between 1 and 16.", least=1, built=True)
    begin_step = whole(1, "is the step up to which parameters are averaged at every step.", least=0, built=True)


class PostLocal(Group):
    """Local steps joined by an outer optimizer (DiLoCo)."""

    k_steps = whole(16, "is the number of local steps between two meetings.", least=1, built=True)
    begin_step = whole(
        0, "is the number of steps with averaged gradients before workers train alone.", least=0, built=True
    )
    outer_lr = number(0.7, "is the learning rate of the outer optimizer.", above=0, built=True)
    outer_momentum = number(0.9, "is the momentum of the outer optimizer.", least=0, below=1, built=True)
    nesterov = switch(True, "gives the outer optimizer Nesterov's momentum.", built=True)


class DGC(Group):
    """Deep gradient compression."""

    rampup_begin_step = whole(0, "is the step at which compression begins.", least=0, built=True)
    rampup_step = whole(
        1, "is the number of steps over which the sparsity list is walked through.", least=1, built=True
    )
    sparsity = numbers(
        "lists the shares of gradient values held back, one per stage of the ramp. Empty means [0.999].",
        least=0,
        below=1,
        built=True,
    )


class GradientMerge(Group):
    """Several batches, one update."""

    k_steps = whole(1, "is the number of batches whose gradients make one update.", least=1, built=True)
    avg = switch(True, "averages the merged gradients; False adds them up.", built=True)


class GradientScale(Group):
    """How the workers' gradients are scaled."""

    scale_strategy = text(
        "avg",
        "says what becomes of the workers' gradients: their mean, their sum, or a scale the user applies.",
        "avg",
        "sum",
        "customized",
        built=True,
    )
    scale_gradient = switch(False, "scales after gradients were merged; False scales the loss before.")


class CollectiveFields(Record):
    """The part of the strategy about collectives."""

    localsgd = switch(
        False, "trains locally and averages parameters every few steps instead of gradients every step.", built=True
    )
    localsgd_configs = GroupField(LocalSGD, "tunes `localsgd`.")
    adaptive_localsgd = switch(False, "is LocalSGD with an interval that grows and shrinks with the loss.", built=True)
    adaptive_localsgd_configs = GroupField(AdaptiveLocalSGD, "tunes `adaptive_localsgd`.")
    post_local = switch(
        False, "trains locally and lets an outer optimizer bring the workers together, as DiLoCo does.", built=True
    )
    post_local_configs = GroupField(PostLocal, "tunes `post_local`.")
    dgc = switch(
        False,
        "sends only the largest gradient values and keeps the rest for later. Needs a momentum optimizer.",
        built=True,
    )
    dgc_configs = GroupField(DGC, "tunes `dgc`.")
    gradient_merge = switch(False, "adds up the gradients of several batches before one update.", built=True)
    gradient_merge_configs = GroupField(GradientMerge, "tunes `gradient_merge`.")
    gradient_scale_configs = GroupField(GradientScale, "says how the workers' gradients are scaled.")
    fp16_allreduce = switch(False, "halves the traffic by casting gradients to half precision on the way.", built=True)
    allreduce_dtype = text("float16", "is the half precision of `fp16_allreduce`.", "float16", "bfloat16", built=True)

    fuse_all_reduce_ops = switch(
        True, "reduces gradients in buckets while backward is still running; False reduces each alone.", built=True
    )
    fuse_grad_size_in_MB = whole(  # noqa: N815
        32, "is the size of a gradient bucket in MB. 0 reduces each gradient alone.", least=0, built=True
    )
    last_comm_group_size_MB = number(1.0, "is the size in MB of the bucket that is reduced last.", above=0, built=True)  # noqa: N815
    fuse_grad_size_in_TFLOPS = number(  # noqa: N815
        50.0, "is the amount of computation after which a bucket is closed.", above=0
    )
    fuse_grad_size_in_num = whole(
        8, "is the number of gradients in a bucket when gradients are fused by count.", least=1
    )
    fuse_grad_merge = switch(False, "merges gradients in their buckets instead of one by one.")
    calc_comm_same_stream = switch(False, "runs computation and communication on one CUDA stream.")
    sync_nccl_allreduce = switch(True, "waits for each all-reduce in the thread that started it.")
    nccl_comm_num = whole(
        1,
        "is a hint: over how many communicators gradients are spread. Here one carries them in buckets, which NCCL "
        "spreads over its own channels.",
        least=1,
        built=True,
    )
    use_hierarchical_allreduce = switch(False, "reduces inside groups of workers first, then between the groups.")
    hierarchical_allreduce_inter_nranks = whole(1, "is the number of workers in such a group.", least=1)
    heter_ccl_mode = switch(False, "lets workers with different kinds of devices reduce together.")
    sync_batch_norm = switch(False, "computes batch-norm statistics over the batch of all workers.", built=True)
    find_unused_parameters = switch(False, "allows parameters that take no part in a forward pass.", built=True)
    elastic = switch(False, "lets workers join and leave while training runs.")
