"""A model without tables: all-reduce, and as much saving of memory as it takes to fit, the cheapest first."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fleet.strategy.sizes import in_units
from fleet_tools.planner.exchange import all_reduce_s, compute_s
from fleet_tools.planner.facts import Machines, Question, Workload
from fleet_tools.planner.memory import (
    HOST_PART,
    TrainingSetup,
    merged_to_fit,
    process_bytes,
    usable_gpu,
    worker_memory,
    worker_parts,
)
from fleet_tools.planner.plan import Choice, MemoryPart, Times

NOT_SHARDED = ("lars", "lamb", "sync_batch_norm", "localsgd", "adaptive_localsgd", "post_local", "dgc", "sharding")
"""Switches that sharding does not go with, or that are it."""


@dataclass(frozen=True)
class Rung:
    """A setting with more saving than the one before, and why it would be taken."""

    setting: TrainingSetup
    reason: str


def choose(workload: Workload, question: Question) -> Choice:
    """The first setting of the ladder that fits; where none does, the last, which says so."""
    machines = question.machines
    of_host = machines.num_gpus or 1
    num_workers = of_host * machines.num_hosts
    limit = _limit(workload, machines)
    rungs = list(_ladder(workload, machines, num_workers, limit))
    fitting = [number for number, rung in enumerate(rungs) if worker_memory(workload, rung.setting).total <= limit]
    chosen = fitting[0] if fitting else len(rungs) - 1
    setting = rungs[chosen].setting
    one = worker_memory(workload, setting)
    device = "GPU memory" if machines.num_gpus else "host memory"
    place = f"of {in_units(limit)} that a worker may use of its {'GPU' if machines.num_gpus else 'machine'}"
    parts = [
        *worker_parts(workload, one, device),
        MemoryPart("a worker in all", device, one.total, None, place),
    ]
    reasons = [_count_reason(machines, num_workers)]
    if "auto" not in workload.switches and machines.num_gpus:
        reasons.append("strategy.auto: bfloat16, torch.compile and fused kernels are the same training, faster")
    reasons += [rung.reason for rung in rungs[1 : chosen + 1]]
    if not fitting:
        reasons.append(
            f"it does not fit: a worker needs {in_units(one.total)} and may use {in_units(limit)}; take a smaller "
            "batch or model, larger GPUs, or more machines"
        )
    elif chosen == 0:
        reasons.append(f"a worker needs {in_units(one.total)} of {in_units(limit)}: nothing has to be saved")
    needed = of_host * (process_bytes(workload) + (_offloaded(workload, num_workers) if setting.offloads else 0))
    has_host = not machines.num_gpus or needed <= HOST_PART * machines.host_memory
    if not has_host:
        reasons.append(
            f"it does not fit: the workers of a machine need {in_units(needed)} of host memory, which has "
            f"{in_units(machines.host_memory)}"
        )
    return Choice(
        mode="collective" if num_workers > 1 else "one process",
        num_workers=num_workers,
        num_servers=0,
        fits=bool(fitting) and has_host,
        parts=tuple(parts),
        times=_times(workload, machines, num_workers, of_host),
        reasons=tuple(reasons),
        command=_command(question, num_workers, of_host),
        code=_code(workload, machines, setting),
    )


def _limit(workload: Workload, machines: Machines) -> int:
    """What one worker may use of its device."""
    if machines.num_gpus:
        return usable_gpu(machines.gpu_memory)
    return max(0, int(HOST_PART * machines.host_memory) - process_bytes(workload))


def _offloaded(workload: Workload, num_workers: int) -> int:
    """Host memory of one worker's share of parameters, gradients and state."""
    dense = workload.dense
    return (dense.parameter_bytes + dense.gradient_bytes + dense.state_bytes) // num_workers


def _ladder(workload: Workload, machines: Machines, num_workers: int, limit: int) -> Iterator[Rung]:
    """Settings from the plainest on. Each keeps what the one before saves."""
    has_half = bool(machines.num_gpus) and not {"amp", "auto"} & set(workload.switches)
    setting = TrainingSetup(num_workers=num_workers, has_half=has_half)
    yield Rung(setting, "")
    can_shard = num_workers > 1 and not any(one in workload.switches for one in NOT_SHARDED)
    if can_shard:
        setting = replace(setting, stage=1)
        yield Rung(setting, f"sharding stage 1: each worker keeps 1/{num_workers} of the optimizer's state, at no cost")
        setting = replace(setting, stage=2)
        yield Rung(setting, f"stage 2: and 1/{num_workers} of the gradients; parameters are gathered once a step")
    if workload.block is not None and workload.block.saving and "recompute" not in workload.switches:
        setting = replace(setting, recomputes=True)
        saved = in_units(workload.block.saving)
        yield Rung(setting, f"recompute {workload.block.pattern}: {saved} less kept, for a second forward of them")
    if can_shard:
        setting = replace(setting, stage=3)
        yield Rung(setting, "stage 3: parameters are divided too, and gathered for forward and for backward")
    if "gradient_merge" not in workload.switches:
        merged = merged_to_fit(workload, setting, limit)
        if merged is not None and merged.num_merged > 1:
            yield Rung(merged, f"gradient_merge: {merged.num_merged} smaller batches make one update, as one batch did")
    if can_shard and machines.num_gpus:
        setting = replace(setting, offloads=True)
        merged = merged_to_fit(workload, setting, limit)
        yield Rung(merged or setting, "optimize_offload: parameters, gradients and state wait in host memory")


def _count_reason(machines: Machines, num_workers: int) -> str:
    if machines.num_gpus:
        return f"no tables, so no servers: one worker for each GPU, {num_workers} in all, by all-reduce"
    if num_workers > 1:
        return f"no tables, so no servers: one worker on each of {num_workers} machines, which uses all its cores"
    return "no tables and no GPU: one process uses all cores of the machine; more would share them"


def _times(workload: Workload, machines: Machines, num_workers: int, of_host: int) -> Times:
    """Gradients travel while backward runs; what takes longer than it is waited for."""
    own = compute_s(workload, machines, of_host)
    exchange = all_reduce_s(workload, machines, num_workers)
    if own is None:
        return Times(None, exchange, None, None)
    backward = own * workload.measured.backward_s / (workload.measured.compute_s or 1.0)
    step = own + max(0.0, exchange - backward)
    return Times(own, exchange, step, num_workers * workload.batch_size / step if step else None)


def _command(question: Question, num_workers: int, of_host: int) -> str:
    machines, script = question.machines, shlex.join(question.script)
    if num_workers == 1:
        return f"python {script}"
    where = f"--nproc_per_node {of_host}" + ("" if machines.num_gpus else " --device cpu")
    if machines.num_hosts == 1:
        return f"fleetrun {where} {script}"
    return f"fleetrun --master HOST_1:6000 --nnodes {machines.num_hosts} {where} {script}"


def _code(workload: Workload, machines: Machines, setting: TrainingSetup) -> tuple[str, ...]:
    """The lines of the strategy that the setting needs, as they stand in a script."""
    lines = []
    if machines.num_gpus and "auto" not in workload.switches:
        lines.append("strategy.auto = True")
    if setting.stage:
        lines += ["strategy.sharding = True", f"strategy.sharding_configs.stage = {setting.stage}"]
    if setting.offloads:
        lines.append("strategy.sharding_configs.optimize_offload = True")
    if setting.recomputes and workload.block is not None:
        lines += ["strategy.recompute = True", f'strategy.recompute_configs.checkpoints = ["{workload.block.pattern}"]']
    if setting.num_merged > 1:
        size = workload.batch_size // setting.num_merged
        lines += [
            "strategy.gradient_merge = True",
            f"strategy.gradient_merge_configs.k_steps = {setting.num_merged}",
            f"# and batches of {size} instead of {workload.batch_size}",
        ]
    if not lines:
        return ()
    return ("strategy = fleet.DistributedStrategy()", *lines, "fleet.init(is_collective=True, strategy=strategy)")
