"""Strategy -> the parts of a training step; combinations that make no sense are refused with the reason."""

from collections.abc import Mapping

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from fleet.collective.modes.base import SyncPolicy
from fleet.collective.modes.reduce_grad import MB, Buckets, ReduceGrad
from fleet.collective.parts.merge import Merge
from fleet.collective.parts.precision import HALVES
from fleet.errors import StrategyError, UsageError
from fleet.strategy import DistributedStrategy
from fleet.strategy.parallel import ShardingConfigs

MODES = ("localsgd", "adaptive_localsgd", "post_local", "dgc", "sharding")
"""Each decides how workers come together, so one at most; none of them is ReduceGrad."""

_LOCAL = ("localsgd", "adaptive_localsgd", "post_local")

# Pairs that do not go together, and why.
_CLASHES: dict[tuple[str, str], str] = {
    ("lars", "lamb"): "each replaces the optimizer",
    ("dgc", "lars"): "DGC applies momentum before gradients are sent, LARS after",
    ("dgc", "lamb"): "DGC corrects momentum, and LAMB is Adam's",
    ("dgc", "gradient_merge"): "what DGC keeps for later has been through momentum already",
    ("dgc", "fp16_allreduce"): "DGC sends few values and their places, which have no half precision",
    ("sharding", "lars"): "LARS needs the norm of whole layers, and a worker has a part of them",
    ("sharding", "lamb"): "LAMB needs the norm of whole layers, and a worker has a part of them",
    ("localsgd", "lamb"): "LocalSGD averages parameters of SGD or momentum",
    ("adaptive_localsgd", "lamb"): "LocalSGD averages parameters of SGD or momentum",
    **{(mode, "sync_batch_norm"): "local steps send nothing, batch norm would at every batch" for mode in _LOCAL},
    ("sharding", "sync_batch_norm"): "its statistics are not divided; keep the batch norm of each worker",
    ("sharding", "find_unused_parameters"): "sharding finds unused parameters by itself; leave it out",
}


def refuse_contradictions(strategy: DistributedStrategy) -> None:
    """StrategyError for switches that are fine alone but not together."""
    chosen = [name for name in MODES if getattr(strategy, name)]
    if len(chosen) > 1:
        names = " and ".join(f"strategy.{name}" for name in chosen)
        raise StrategyError(f"{names} are each a way for workers to come together; keep one of them")
    for (one, other), reason in _CLASHES.items():
        if getattr(strategy, one) and getattr(strategy, other):
            raise StrategyError(f"strategy.{one} and strategy.{other} do not go together: {reason}; keep one of them")
    if strategy.dgc and strategy.amp and strategy.amp_configs.dtype == "float16":
        raise StrategyError(
            "strategy.dgc and strategy.amp in float16 do not go together: an overflow would stay in what DGC keeps "
            'for later; set strategy.amp_configs = {"dtype": "bfloat16"}'
        )
    if strategy.dgc and (strategy.clip_value is not None or strategy.gradient_scale_configs.scale_strategy != "avg"):
        raise StrategyError(
            "strategy.dgc sends steps that momentum has made of gradients, so clip_value and "
            'gradient_scale_configs.scale_strategy other than "avg" have nothing to work on; use clip_norm'
        )
    if strategy.amp_configs.use_pure_bf16 and strategy.amp and strategy.amp_configs.dtype == "float16":
        raise StrategyError(
            'strategy.amp_configs.use_pure_bf16 needs dtype "bfloat16", got "float16"; set both, or neither'
        )
    merges = strategy.sharding and strategy.sharding_configs.gradient_merge_acc_step > 1
    if merges and strategy.gradient_merge:
        raise StrategyError(
            "strategy.gradient_merge and strategy.sharding_configs.gradient_merge_acc_step both merge gradients; "
            "keep one of them"
        )
    _refuse_half_set_sharding(strategy)


def _refuse_half_set_sharding(strategy: DistributedStrategy) -> None:
    configs = strategy.sharding_configs
    for new, old in (("segment_broadcast_MB", "fuse_broadcast_MB"), ("sharding_degree", "sharding_group_size")):
        values = {configs[new], configs[old]} - {None}
        if len(values) == 2:
            raise StrategyError(
                f"strategy.sharding_configs.{new} = {configs[new]} and {old} = {configs[old]} are two names of one "
                "thing; set one of them"
            )
    if configs.optimize_offload and configs.stage == 1:
        raise StrategyError(
            "strategy.sharding_configs.optimize_offload needs stage 2 or 3, got 1; set stage, or leave it out"
        )


def make_sync_policy(
    module: nn.Module, strategy: DistributedStrategy, num_workers: int, device: torch.device
) -> SyncPolicy:
    """How this model's workers come together. A single worker has nobody to meet."""
    if num_workers == 1:
        return SyncPolicy(module)
    buckets = _buckets(strategy)
    if strategy.dgc:
        from fleet.collective.modes.dgc import DGC
        from fleet.collective.parts.topk import Ramp

        configs = strategy.dgc_configs
        ramp = Ramp(configs.sparsity, configs.rampup_begin_step, configs.rampup_step)
        return DGC(module, num_workers, buckets, ramp, strategy.clip_norm)
    if strategy.sharding:
        return _sharding(module, strategy, num_workers, device, buckets)
    if any(getattr(strategy, name) for name in _LOCAL):
        return _local(module, strategy, num_workers, buckets)
    return ReduceGrad(module, num_workers, buckets)


def _local(module: nn.Module, strategy: DistributedStrategy, num_workers: int, buckets: Buckets) -> SyncPolicy:
    from fleet.collective.modes.local_sgd import Interval, LocalSGDPolicy

    if strategy.localsgd:
        local = strategy.localsgd_configs
        interval = Interval(local.k_steps, local.begin_step, buckets.size_bytes, buckets.dtype)
        return LocalSGDPolicy(module, num_workers, interval)
    if strategy.adaptive_localsgd:
        from fleet.collective.modes.adaptive import AdaptiveLocalSGDPolicy

        adaptive = strategy.adaptive_localsgd_configs
        interval = Interval(adaptive.init_k_steps, adaptive.begin_step, buckets.size_bytes, buckets.dtype)
        return AdaptiveLocalSGDPolicy(module, num_workers, interval)
    from fleet.collective.modes.post_local import PostLocal

    post = strategy.post_local_configs
    interval = Interval(post.k_steps, post.begin_step, buckets.size_bytes, buckets.dtype)
    reduce_grad = ReduceGrad(module, num_workers, buckets) if post.begin_step > 0 else None
    return PostLocal(module, num_workers, interval, post, reduce_grad)


def _buckets(strategy: DistributedStrategy) -> Buckets:
    size_bytes = strategy.fuse_grad_size_in_MB * MB if strategy.fuse_all_reduce_ops else 0
    dtype = HALVES[strategy.allreduce_dtype] if strategy.fp16_allreduce else None
    last_bytes = int(strategy.last_comm_group_size_MB * MB)
    return Buckets(max(size_bytes, 1), last_bytes, dtype, strategy.find_unused_parameters)


def _sharding(
    module: nn.Module, strategy: DistributedStrategy, num_workers: int, device: torch.device, buckets: Buckets
) -> SyncPolicy:
    if strategy.sharding_configs.optimize_offload and device.type == "cpu":
        raise StrategyError(
            "strategy.sharding_configs.optimize_offload moves what a GPU holds to the host, and this worker trains on "
            "the CPU; leave it out"
        )
    from torch.distributed.device_mesh import init_device_mesh

    configs = strategy.sharding_configs
    shape = _copies(configs, num_workers)
    names = ("replicate", "shard")[-len(shape) :]
    mesh = init_device_mesh(device.type, shape, mesh_dim_names=names)
    if configs.stage == 1:
        from fleet.collective.modes.sharded import ShardedState

        return ShardedState(module, num_workers, buckets, mesh.get_group("shard"))
    from fleet.collective.modes.sharded import Division, Sharded

    division = Division(configs.stage, mesh, int(configs.segment_mb * MB), buckets.dtype, configs.optimize_offload)
    return Sharded(module, num_workers, division)


def _copies(configs: ShardingConfigs, num_workers: int) -> tuple[int, ...]:
    """The shape of the grid of workers: copies of the model, unless there is one, and workers that share a copy."""
    degree = configs.degree(num_workers)
    if num_workers % degree:
        raise StrategyError(
            f"strategy.sharding_configs.sharding_degree = {degree} does not divide {num_workers} workers; set it to "
            "a number that does"
        )
    if degree == num_workers:
        return (num_workers,)
    if not configs.hybrid_dp:
        raise StrategyError(
            f"strategy.sharding_configs.sharding_degree = {degree} with {num_workers} workers makes several copies of "
            "the model; set hybrid_dp = True too, or leave it out"
        )
    return num_workers // degree, degree


def make_merge(strategy: DistributedStrategy) -> Merge:
    """How many batches make an update."""
    if strategy.gradient_merge:
        return Merge(strategy.gradient_merge_configs.k_steps, strategy.gradient_merge_configs.avg)
    return Merge(strategy.sharding_configs.gradient_merge_acc_step if strategy.sharding else 1)


def needs_optimizer(strategy: DistributedStrategy, policy: SyncPolicy) -> bool:
    """Whether an optimizer that is not Fleet's would leave out a part of what the strategy asks for."""
    switches = ("gradient_merge", "lars", "lamb", "fused_optimizer", "sharding", *_LOCAL, "dgc")
    asked = any(getattr(strategy, name) for name in switches)
    values = strategy.clip_norm, strategy.clip_value
    is_summed = strategy.gradient_scale_configs.scale_strategy != "avg" and policy.num_workers > 1
    asked = asked or strategy.nonfinite_gradients == "skip"
    return asked or is_summed or any(value is not None for value in values)


def replace_optimizer(
    optimizer: Optimizer, strategy: DistributedStrategy, names: Mapping[nn.Parameter, str]
) -> Optimizer:
    """The user's optimizer, or the one that LARS or LAMB makes of it; UsageError if the strategy needs another."""
    kind = type(optimizer).__name__
    has_momentum = isinstance(optimizer, SGD) and all(group["momentum"] > 0 for group in optimizer.param_groups)
    for name in ("lars", "dgc"):
        if getattr(strategy, name) and not has_momentum:
            raise UsageError(f"strategy.{name} needs torch.optim.SGD with momentum, got {kind}")
    for name in ("localsgd", "adaptive_localsgd"):
        if getattr(strategy, name) and not isinstance(optimizer, SGD):
            raise UsageError(
                f"strategy.{name} averages parameters of torch.optim.SGD, got {kind}; use strategy.post_local with it"
            )
    from fleet.optim import Lamb, Lars

    if strategy.lars:
        assert isinstance(optimizer, SGD)
        lars = strategy.lars_configs
        return Lars.taking_over(
            optimizer,
            coeff=lars.lars_coeff,
            weight_decay=lars.lars_weight_decay,
            epsilon=lars.epsilon,
            exclude=lars.exclude_from_weight_decay,
            names=names,
        )
    if strategy.lamb:
        if not isinstance(optimizer, Adam | AdamW):
            raise UsageError(f"strategy.lamb needs torch.optim.Adam or AdamW, got {kind}")
        lamb = strategy.lamb_configs
        return Lamb.taking_over(
            optimizer, weight_decay=lamb.lamb_weight_decay, exclude=lamb.exclude_from_weight_decay, names=names
        )
    return optimizer
