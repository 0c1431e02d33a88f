"""Fields that split one model over several workers: pipeline, sharding, tensor parallel, and all at once."""

from __future__ import annotations

from fleet.strategy.field import number, switch, text, whole, words
from fleet.strategy.group import Group, GroupField
from fleet.strategy.record import Record


class Pipeline(Group):
    """Stages of layers on different workers."""

    micro_batch_size = whole(1, "is the number of samples in a micro-batch.", least=1)
    micro_batch = whole(1, "is the number of micro-batches of a batch, the 2.0 name of `accumulate_steps`.", least=1)
    accumulate_steps = whole(1, "is the number of micro-batches that make one update.", least=1)
    schedule_mode = text(
        "1F1B",
        "is the order of work: forward and backward in turn, or all forwards first.",
        "1F1B",
        "F-then-B",
    )
    p2p_cache_shape = switch(True, "sends the shape of activations once instead of every time.")
    enable_partial_send_recv = switch(True, "sends each activation in parts when tensor parallel workers share it.")


class Sharding(Group):
    """Parameters, gradients and optimizer state divided among workers."""

    sharding_segment_strategy = text(
        "segment_broadcast_MB",
        "says how a program is cut into segments: by size, or at anchors.",
        "segment_broadcast_MB",
        "segment_anchors",
    )
    segment_broadcast_MB = number(32.0, "is the size of a segment's parameters in MB.", above=0, built=True)  # noqa: N815
    fuse_broadcast_MB = number(32.0, "is the 2.0 name of `segment_broadcast_MB`.", above=0, built=True)  # noqa: N815
    segment_anchors = words("names the variables at which segments end.")
    sharding_degree = whole(
        8, "is the number of workers that share one copy of the model's state.", least=1, built=True
    )
    sharding_group_size = whole(8, "is the 2.0 name of `sharding_degree`.", least=1, built=True)
    mp_degree = whole(1, "is the number of workers a layer is split over.", least=1)
    dp_degree = whole(1, "is the number of copies of the model.", least=1)
    pp_degree = whole(1, "is the number of pipeline stages.", least=1)
    hybrid_dp = switch(False, "puts data parallelism around the sharding groups.", built=True)
    gradient_merge_acc_step = whole(1, "is the number of batches whose gradients make one update.", least=1, built=True)
    optimize_offload = switch(False, "keeps the optimizer's state in host memory.", built=True)
    optimize_cast = switch(False, "keeps half-precision parameters between steps instead of casting at each use.")
    pp_allreduce_in_optimize = switch(False, "reduces gradients of pipeline copies in the optimizer step.")
    stage = whole(
        1, "is what is divided: 1 optimizer state, 2 gradients too, 3 parameters too.", least=1, most=3, built=True
    )


class TensorParallel(Group):
    """Layers split over workers."""

    tensor_parallel_degree = whole(1, "is the number of workers a layer is split over.", least=1)
    tensor_init_seed = whole(-1, "is the seed of the split layers' first values. -1 draws one.", least=-1)


class Hybrid(Group):
    """The shape of the grid of workers."""

    dp_degree = whole(
        -1, "is the number of copies of the model. -1 takes what the other degrees leave.", least=1, also=-1
    )
    mp_degree = whole(1, "is the number of workers a layer is split over.", least=1)
    pp_degree = whole(1, "is the number of pipeline stages.", least=1)
    sharding_degree = whole(1, "is the number of workers that share one copy of the model's state.", least=1)
    sep_degree = whole(1, "is the number of workers a sequence is split over.", least=1)


class ParallelFields(Record):
    """The part of the strategy about splitting a model."""

    pipeline = switch(False, "puts consecutive layers on different workers and streams micro-batches through them.")
    pipeline_configs = GroupField(Pipeline, "tunes `pipeline`.")
    sharding = switch(
        False, "divides parameters, gradients and optimizer state among workers to save memory.", built=True
    )
    sharding_configs = GroupField(Sharding, "tunes `sharding`.")
    tensor_parallel = switch(False, "splits single layers over several workers.")
    tensor_parallel_configs = GroupField(TensorParallel, "tunes `tensor_parallel`.")
    hybrid_configs = GroupField(
        Hybrid, "combines the ways of splitting; the product of the degrees is the number of workers."
    )
    auto = switch(False, "lets Fleet choose the strategy for the model and the roles.", built=True)
    semi_auto = switch(False, "completes a strategy of which the user annotated some tensors.")
    auto_search = switch(False, "measures candidate strategies and keeps the fastest.")
