"""What a strategy, or a config of the transpiler, asks for in a job of programs: honoured, or refused by name."""

from __future__ import annotations

from dataclasses import replace

from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet.json_form import shown
from fleet.ps.job.placement import MIN_BLOCK
from fleet.roles import Identity
from fleet.strategy import DistributedStrategy
from fleet.strategy.mode import MODE_FIELDS, Mode
from fleet.strategy.parameter_server import WireConfigs
from fleet_programs.jobs import meta
from fleet_programs.program.program import Program
from fleet_programs.transpiler.planning.arguments import Arguments, read
from fleet_programs.transpiler.planning.config import DistributeTranspilerConfig, check_modes

TRAFFIC = (
    "max_merge_var_num",
    "send_queue_size",
    "independent_recv_thread",
    "min_send_grad_num_before_recv",
    "send_wait_times",
)
HONOURED = frozenset(
    {
        *MODE_FIELDS,
        *(f"a_sync_configs.{name}" for name in TRAFFIC),
        *(f"wire_configs.{name}" for name in WireConfigs()),
        "nonfinite_gradients",
        # They change how gradients travel, and a program sends all of them at once.
        "fuse_all_reduce_ops",
        "fuse_grad_size_in_MB",
        "last_comm_group_size_MB",
        "find_unused_parameters",
        "nccl_comm_num",
    }
)
"""Fields of a strategy that programs know in every kind of job; `meta.FIELDS` are those of collective ones."""

CHECKED = ("build_strategy", "execution_strategy")
"""Groups of which `strategy.require_supported()` refuses what is not honoured."""

OF_SERVERS = (
    "slice_var_up",
    "split_method",
    "min_block_size",
    "sync_mode",
    "half_async",
    "completely_not_async",
    "geo_sgd_mode",
    "geo_sgd_need_push_nums",
    "runtime_split_send_recv",
)
"""Fields of a config that say how servers train."""

Strategy = DistributedStrategy | DistributeTranspilerConfig


def check(strategy: Strategy, is_collective: bool) -> None:
    """Refuse what is no strategy, and fields that programs do not know or that belong to another kind of job."""
    if isinstance(strategy, DistributedStrategy):
        _check_strategy(strategy, is_collective)
    elif isinstance(strategy, DistributeTranspilerConfig):
        _check_config(strategy, is_collective)
    else:
        raise UsageTypeError(
            "fleet.distributed_optimizer(): strategy must be a DistributedStrategy or a DistributeTranspilerConfig, "
            f"got {strategy!r}"
        )


def _check_strategy(strategy: DistributedStrategy, is_collective: bool) -> None:
    strategy.require_supported()  # it may have changed since fleet.init()
    if is_collective and strategy.nonfinite_gradients == "skip":
        raise NotSupportedError(
            "strategy.nonfinite_gradients = 'skip': in a collective job the updates are in the program, which cannot "
            "leave some of them out; use 'error', or train a torch module"
        )
    for leaf in strategy.changed():
        is_honoured = leaf.dotted in HONOURED or (is_collective and leaf.dotted in meta.FIELDS)
        if not is_honoured and leaf.path[0] not in CHECKED:
            raise NotSupportedError(
                f"strategy.{leaf.dotted} is not built for programs; leave it at its default "
                f"({shown(leaf.field.default)}), or train a torch module"
            )


def _check_config(config: DistributeTranspilerConfig, is_collective: bool) -> None:
    if not is_collective and config.mode != "pserver":
        raise UsageError(
            f'config.mode = "{config.mode}" is for a collective job, and this one is not; call '
            "fleet.init(is_collective=True), or leave it out"
        )
    check_modes(config)
    if not is_collective:
        return
    if config.mode == "pserver" and config.is_chosen("mode"):
        raise UsageError('config.mode = "pserver" needs servers, and a collective job has none; leave it out')
    usual = DistributeTranspilerConfig()
    for name in OF_SERVERS:
        if getattr(config, name) != getattr(usual, name):
            raise UsageError(
                f"config.{name} = {getattr(config, name)!r} is for servers, and a collective job has none; leave it out"
            )


def for_servers(who: Identity, main: Program, startup: Program, strategy: Strategy) -> Arguments:
    """How this worker's programs are cut; without servers in the job, for the one in this process."""
    endpoints = tuple(str(endpoint) for endpoint in who.server_endpoints)
    if isinstance(strategy, DistributeTranspilerConfig):
        named = {"program": main, "startup_program": startup, "trainers": who.num_workers}
        if endpoints:
            named["pservers"] = ",".join(endpoints)
        return replace(read((who.index,), named, strategy), endpoints=endpoints)
    arguments = Arguments(who.index, main, startup, "pserver", endpoints, who.num_workers, min_block_size=MIN_BLOCK)
    if strategy.mode is Mode.OFF:
        return arguments
    k_steps = strategy.a_sync_configs.k_steps if strategy.mode is Mode.GEO else 0
    return replace(arguments, mode=strategy.mode, k_steps=k_steps)
