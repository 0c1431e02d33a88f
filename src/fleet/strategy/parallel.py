"""Fields that divide one model among several workers."""

from fleet.strategy.field import maybe_number, maybe_whole, switch, whole
from fleet.strategy.record import Group, GroupField, StrategyRecord

SEGMENT_MB = 32.0
HYBRID_DEGREE = 8


class ShardingConfigs(Group):
    """Parameters, gradients and optimizer state divided among workers."""

    segment_broadcast_MB = maybe_number(  # noqa: N815
        f"is the size of a segment's parameters in MB. None: {SEGMENT_MB:g}.", above=0
    )
    fuse_broadcast_MB = maybe_number("is the 2.0 name of `segment_broadcast_MB`.", above=0)  # noqa: N815
    sharding_degree = maybe_whole(
        "is the number of workers that share one copy of the model's state; fewer than all need `hybrid_dp`. None: "
        f"all, or {HYBRID_DEGREE} with `hybrid_dp`.",
        least=1,
    )
    sharding_group_size = maybe_whole("is the 2.0 name of `sharding_degree`.", least=1)
    hybrid_dp = switch(False, "puts data parallelism around the sharding groups.")
    gradient_merge_acc_step = whole(1, "is the number of batches whose gradients make one update.", least=1)
    optimize_offload = switch(False, "keeps the optimizer's state in host memory.")
    stage = whole(1, "is what is divided: 1 optimizer state, 2 gradients too, 3 parameters too.", least=1, most=3)

    @property
    def segment_mb(self) -> float:
        """The size of a segment, under whichever name it was set."""
        return self.segment_broadcast_MB or self.fuse_broadcast_MB or SEGMENT_MB

    def degree(self, num_workers: int) -> int:
        """How many of the workers share a copy, under whichever name it was set."""
        usual = min(HYBRID_DEGREE, num_workers) if self.hybrid_dp else num_workers
        return self.sharding_degree or self.sharding_group_size or usual


class ParallelFields(StrategyRecord):
    """The part of the strategy about dividing a model."""

    sharding = switch(False, "divides parameters, gradients and optimizer state among workers to save memory.")
    sharding_configs = GroupField(ShardingConfigs, "tunes `sharding`.")
    auto = switch(
        False,
        "switches on what suits the model and the device. What somebody has set stays, also what is set to False.",
    )
