"""What a strategy makes of a program besides bringing gradients together: another rule, precision, fewer updates.

    lars, lamb        another update operator
    amp               casts, and gradients that are looked at
    recompute         forward operators repeated in backward
    gradient_merge    updates inside a condition
    localsgd          averages of parameters, inside a condition

Everything is operators of the program, which can be printed and saved; nothing happens beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet.errors import StrategyError, UsageError
from fleet.strategy import DistributedStrategy
from fleet_programs.amp import AutoMixedPrecisionLists, MixedPrecision
from fleet_programs.amp.decorated import LossScaling
from fleet_programs.optimizer import SGD, Adam, Lamb, LarsMomentum, Momentum, Optimizer
from fleet_programs.program.variable import Parameter
from fleet_programs.transpiler.passes.gradient_merge import gradient_merge, gradient_merge_startup
from fleet_programs.transpiler.passes.recompute import recompute
from fleet_programs.transpiler.programs import Pair, for_collective

FIELDS = frozenset(
    {
        "localsgd",
        "localsgd_configs.k_steps",
        "localsgd_configs.begin_step",
        "gradient_merge",
        "gradient_merge_configs.k_steps",
        "gradient_merge_configs.avg",
        "lars",
        "lars_configs.lars_coeff",
        "lars_configs.lars_weight_decay",
        "lars_configs.epsilon",
        "lars_configs.exclude_from_weight_decay",
        "lamb",
        "lamb_configs.lamb_weight_decay",
        "lamb_configs.exclude_from_weight_decay",
        "recompute",
        "recompute_configs.checkpoints",
        "amp",
        "amp_configs.dtype",
        "amp_configs.init_loss_scaling",
        "amp_configs.incr_every_n_steps",
        "amp_configs.decr_every_n_nan_or_inf",
        "amp_configs.incr_ratio",
        "amp_configs.decr_ratio",
        "amp_configs.use_dynamic_loss_scaling",
        "amp_configs.custom_white_list",
        "amp_configs.custom_black_list",
        "amp_configs.custom_black_varnames",
    }
)
"""The fields of a strategy that are honoured here."""


def optimizer_of(given: Optimizer, strategy: DistributedStrategy) -> Optimizer:
    """The optimizer whose `minimize` adds what the strategy asks for; UsageError if it needs another to begin with."""
    _refuse_contradictions(strategy)
    kind = type(given).__name__
    if strategy.localsgd and not isinstance(given, SGD | Momentum):
        raise UsageError(f"strategy.localsgd averages parameters of SGD or Momentum, got {kind}")
    made = given
    if strategy.lars:
        if not isinstance(given, Momentum) or given.use_nesterov:
            raise UsageError(f"strategy.lars needs Momentum, without use_nesterov, got {kind}")
        made = _lars(given, strategy)
    if strategy.lamb:
        if not isinstance(given, Adam):
            raise UsageError(f"strategy.lamb needs Adam, got {kind}")
        made = _lamb(given, strategy)
    made._rates = given._rates  # whoever sets the rate of one sets that of the other
    return _mixed(made, strategy) if strategy.amp else made


def _refuse_contradictions(strategy: DistributedStrategy) -> None:
    for one, other, why in (
        ("lars", "lamb", "each replaces the optimizer"),
        ("localsgd", "lamb", "LocalSGD averages parameters of SGD or momentum"),
        ("localsgd", "gradient_merge", "one averages after every few updates, the other makes few of them; keep one"),
    ):
        if getattr(strategy, one) and getattr(strategy, other):
            raise StrategyError(f"strategy.{one} and strategy.{other} do not go together: {why}")
    if strategy.recompute and not strategy.recompute_configs.checkpoints:
        raise StrategyError(
            "strategy.recompute needs strategy.recompute_configs.checkpoints: names of values between layers, such as "
            "[hidden.name]"
        )


def _lars(given: Momentum, strategy: DistributedStrategy) -> Optimizer:
    configs = strategy.lars_configs
    return LarsMomentum(
        given._learning_rate,
        given.momentum,
        lars_coeff=configs.lars_coeff,
        lars_weight_decay=configs.lars_weight_decay,
        exclude_from_weight_decay=list(configs.exclude_from_weight_decay),
        epsilon=configs.epsilon,
        regularization=given.regularization,
        grad_clip=given.grad_clip,
        name=given.name,
        parameter_list=given.parameter_list,
    )


def _lamb(given: Adam, strategy: DistributedStrategy) -> Optimizer:
    parts: Sequence[str] = strategy.lamb_configs.exclude_from_weight_decay

    def is_excluded(parameter: Parameter) -> bool:
        return any(part in parameter.name for part in parts)

    return Lamb(
        given._learning_rate,
        strategy.lamb_configs.lamb_weight_decay,
        given.beta1,
        given.beta2,
        given.epsilon,
        is_excluded,
        regularization=given.regularization,
        grad_clip=given.grad_clip,
        name=given.name,
        parameter_list=given.parameter_list,
    )


def _mixed(inner: Optimizer, strategy: DistributedStrategy) -> Optimizer:
    configs = strategy.amp_configs
    lists = AutoMixedPrecisionLists(configs.custom_white_list, configs.custom_black_list, configs.custom_black_varnames)
    scaling = LossScaling(
        configs.init_loss_scaling,
        configs.incr_every_n_steps,
        configs.decr_every_n_nan_or_inf,
        configs.incr_ratio,
        configs.decr_ratio,
        configs.use_dynamic_loss_scaling,
    )
    return MixedPrecision(inner, lists, scaling, configs.dtype)


def for_workers(trained: Pair, strategy: DistributedStrategy, endpoints: Sequence[str], index: int) -> Pair:
    """The programs of one of some workers, of programs as one process without a strategy would run them."""
    main, startup = trained
    if strategy.recompute:
        main = recompute(main, strategy.recompute_configs.checkpoints)
    merge, num_workers = strategy.gradient_merge_configs, len(endpoints)
    merges = strategy.gradient_merge and merge.k_steps > 1
    # Where precision is mixed, all workers must see the same gradients in every step.
    merges_first = merges and not strategy.amp
    if num_workers > 1:
        configs = strategy.localsgd_configs
        main, startup = for_collective(
            main,
            startup,
            endpoints,
            index,
            "local_sgd" if strategy.localsgd else "none" if merges_first else "grad_allreduce",
            k_steps=configs.k_steps,
            begin_step=configs.begin_step,
        )
    if merges:
        main = gradient_merge(main, merge.k_steps, merge.avg, num_workers if merges_first else 1)
        startup = gradient_merge_startup(startup, main)
    return main, startup
