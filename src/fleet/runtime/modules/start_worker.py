"""`fleet.init_worker()`: the declaration of a job goes to the servers, and a worker that runs it comes back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import torch
from torch import nn

from fleet import _native, env
from fleet.errors import NotSupportedError, UsageError
from fleet.nn.graphs import record_parts
from fleet.ps.hot.hot_tables import HotTables, refuse_hot
from fleet.ps.job.placement import place
from fleet.ps.job.spec import JobSpec
from fleet.ps.job.staging import host_buffer
from fleet.ps.server.service import Service
from fleet.ps.wire.transport import LocalTransport
from fleet.ps.worker.asking.side_thread import NoSideThread, SideThread
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.calling.server_set import Elsewhere
from fleet.ps.worker.modes import POLICIES
from fleet.ps.worker.optimizer import ServerOptimizer
from fleet.ps.worker.parts.contract import AtClose, NoHotTables, StepPart
from fleet.ps.worker.sending.clipped import mark_shared
from fleet.ps.worker.sending.dense_ahead import make_ahead
from fleet.ps.worker.sending.flat import FlatParameters
from fleet.ps.worker.worker import Worker
from fleet.runtime.modules.declare import Declared, declare, job_of, shares
from fleet.runtime.modules.joined import Joined, join
from fleet.strategy import DistributedStrategy
from fleet.strategy.mode import Mode

if TYPE_CHECKING:
    from fleet.ps.job.placement import Dispatch, Dispatcher
    from fleet.ps.wire.transport import Transport
    from fleet.ps.worker.asking.lookup import Lookup
    from fleet.ps.worker.life.progress import ScriptProgress
    from fleet.roles import Identity

AWAKE_US = 1500
"""How long a table's threads stay awake for the push of a step, which comes when its gradients are there."""

_log = logging.getLogger(__name__)


def start_worker(
    model: nn.Module | None,
    optimizers: Sequence[ServerOptimizer],
    who: Identity,
    strategy: DistributedStrategy,
    *,
    connect: Callable[[], Sequence[Transport]],
    reach: Callable[[Sequence[str]], Sequence[Transport]] | None = None,
    layout: int = 0,
    dispatcher: Dispatcher | Dispatch | None = None,
    average: Callable[[torch.Tensor], None] | None = None,
    progress: ScriptProgress | None = None,
    begin_reshard: Callable[[int], None] = lambda _: None,
) -> Worker:
    """Declare the job, agree on the first values of the model, and bind model and optimizers to the servers.

    Worker 0's values are everybody's, unless the servers were started from a checkpoint: then theirs are.

    `layout`: which layout of servers `connect` reaches; `reach` connects to those of another, by their endpoints.
    `begin_reshard` is called where `fleetrun reshard` wants another number of servers.
    """
    found = declare(model, optimizers)
    job, kept = job_of(found, who, strategy, dispatcher)
    for table in found.caches:
        refuse_hot(job, job.tables[table], has_servers=bool(who.server_endpoints))
    device = found.dense[0][1].device if found.dense else _device_of(model)
    is_averaged = strategy.dense == "allreduce"
    if is_averaged:
        _check_averaging(job, progress)
    _check_clipping(strategy, job)
    _check_elastic(job, strategy)
    flats: list[FlatParameters | None] = []

    def take() -> FlatParameters | None:
        flats.append(_flat(found, job))
        return flats[0] if job.dense.groups else None

    elsewhere = None
    if reach is not None:
        elsewhere = Elsewhere(lambda num: job_of(found, who, strategy, dispatcher, num)[0], reach)
    client = Client(
        connect(),
        who.index,
        job,
        layout,
        elsewhere=elsewhere,
        absent_after_s=_absent_after_s(strategy, job, progress),
        answers=None if progress is None else progress.answers,
    )
    configs, num_optimizers = strategy.a_sync_configs, len(optimizers)
    joined = join(client, take, device, configs, kept, progress, found.first_rows, begin_reshard, num_optimizers)
    with ExitStack() as undo:
        undo.callback(joined.close)
        side_thread = SideThread(device) if device.type == "cuda" or (found.caches and optimizers) else NoSideThread()
        undo.callback(side_thread.close)
        hot = _warm(joined, found.caches, side_thread) if found.caches and optimizers else NoHotTables()
        undo.callback(hot.close)
        worker = Worker(
            client,
            joined.policy,
            flats[0],
            device,
            joined.done,
            joined.kept,
            other_names=found.others,
            has_optimizer=bool(optimizers),
            progress=progress,
            # Nobody passes in a step with a collective of all workers: servers do not see it.
            passing=None if is_averaged else joined.passing,
            side_thread=side_thread,
            hot=hot,
            parts=[*_parts_of(joined, found, flats[0], optimizers, strategy, model)],
        )
        undo.pop_all()
    for module, indexes in found.modules:
        module.bind(worker, indexes)
    each = shares(found, job, optimizers, average if is_averaged else None)
    for optimizer, share in zip(optimizers, each, strict=True):
        optimizer.bind(worker, share)
    return worker


def _check_averaging(job: JobSpec, progress: ScriptProgress | None) -> None:
    """UsageError where dense parameters cannot stay in the workers, which `strategy.dense` wants."""
    if POLICIES[job.mode].trains_locally:
        raise UsageError(
            "strategy.dense = 'allreduce' and geo mode both keep dense parameters in the workers; choose one"
        )
    if progress is not None and job.num_workers > 1:
        raise UsageError(
            "strategy.dense = 'allreduce' keeps dense parameters in the workers, and in a durable job a worker may be "
            "started again without them; use 'server'"
        )


def _check_elastic(job: JobSpec, strategy: DistributedStrategy) -> None:
    """NotSupportedError for what counts on all workers, where they come and go."""
    if not job.is_elastic:
        return
    counted = {
        "strategy.dense = 'allreduce'": strategy.dense == "allreduce",
        "strategy.sync_batch_norm": strategy.sync_batch_norm,
        "strategy.clip_norm in sync mode": job.clips_on_servers,
    }
    if found := [name for name, is_set in counted.items() if is_set]:
        raise NotSupportedError(
            f"{found[0]} takes part of every worker, and in this job they come and go (--worker_num A:B); leave it "
            "out, or give one number of workers"
        )


def _check_clipping(strategy: DistributedStrategy, job: JobSpec) -> None:
    """UsageError where gradients cannot be limited as `strategy.clip_norm` says, before anything is declared."""
    if job.clip_norm is None or job.num_workers == 1:
        return
    said = f"strategy.clip_norm = {job.clip_norm:g}"
    if strategy.dense == "allreduce":
        raise UsageError(
            f"{said}: with strategy.dense = 'allreduce' nobody has the gradients of rows and layers of all workers; "
            "use strategy.dense = 'server'"
        )
    if job.clips_on_servers and strategy.wait_for_workers_s:
        raise UsageError(
            f"{said}: the norm of a step needs the gradients of every worker; leave out strategy.wait_for_workers_s"
        )


def _parts_of(
    joined: Joined,
    found: Declared,
    flat: FlatParameters | None,
    optimizers: Sequence[ServerOptimizer],
    strategy: DistributedStrategy,
    model: nn.Module | None,
) -> Iterator[StepPart]:
    """What hangs on the steps of a worker: for the model, for the strategy, and for its next life."""
    job = joined.client.job
    is_sync = job.mode == Mode.SYNC
    yield _pin(joined.client, joined.device)
    if strategy.cuda_graphs and model is not None and optimizers:
        yield _record(joined.device, model)
    if flat is not None and optimizers and is_sync and job.num_workers > 1:
        hooks = [one.register_post_accumulate_grad_hook(mark_shared) for _, one, _ in found.dense]
        yield AtClose(*(hook.remove for hook in hooks))
    goes_ahead = strategy.wire_configs.dense_ahead and (job.clip_norm is None or job.clips_on_servers)
    if optimizers and job.dense.groups and is_sync and goes_ahead:
        yield make_ahead(flat, joined.client, joined.done)
    yield from joined.parts


class Rouser(StepPart):
    """Has the threads of a table in this process look out, at each step, for gradients that come from a GPU."""

    def begin(self, used: Sequence[Lookup], *, is_new: bool) -> None:  # noqa: ARG002
        if any(lookup.placement is None for lookup in used):
            _native.rouse(AWAKE_US)


def _pin(client: Client, device: torch.device) -> StepPart:
    """Have a service in this process pull rows into memory from which copies to the GPU are quick."""
    part = StepPart()
    for transport in client.transports if device.type == "cuda" else ():
        if isinstance(transport, LocalTransport) and isinstance(transport.service, Service):
            transport.service.state.held.rows_memory = lambda *shape: host_buffer(shape, device).numpy()
            part = Rouser()
    return part


def _warm(joined: Joined, caches: Mapping[int, int], side_thread: NoSideThread) -> HotTables:
    """Have hot rows of some tables trained where the model is."""
    if joined.device.type != "cuda":
        _log.warning("cache='gpu': the model is on the %s, and so is the cache; it saves no time", joined.device.type)
    return HotTables(joined.client, caches, joined.device, side_thread, joined.done)


def _record(device: torch.device, model: nn.Module) -> StepPart:
    """Have the parts of a model without tables replayed as CUDA graphs until the worker has left."""
    if device.type == "cuda":
        return AtClose(record_parts(model))
    _log.warning("strategy.cuda_graphs: the model is on the %s; nothing is recorded", device.type)
    return StepPart()


def _absent_after_s(strategy: DistributedStrategy, job: JobSpec, progress: ScriptProgress | None) -> float:
    """How long a step waits for an absent worker; UsageError where nobody could be absent and come back."""
    seconds, standby = strategy.wait_for_workers_s, env.FLEET_STANDBY.get()
    if standby == "ASYNC" and job.mode == "sync":
        raise UsageError(
            "a synchronous job with --standby async: a copy may lack the last step, which other servers have made; "
            "start it with --standby sync"
        )
    if seconds is None:
        return 0.0
    if standby is not None:
        raise UsageError(
            f"strategy.wait_for_workers_s = {seconds:g}: where servers have copies (--standby), a step has the pushes "
            "of all; leave it out"
        )
    if job.mode != "sync":
        raise UsageError(
            f"strategy.wait_for_workers_s = {seconds:g}: workers wait for each other in sync mode only, and this job's "
            f"mode is {job.mode}; leave it out"
        )
    if progress is None:
        raise UsageError(
            f"strategy.wait_for_workers_s = {seconds:g}: only a worker of a durable job comes back; start it with "
            "fleetrun --durable DIR, or leave it out"
        )
    return seconds


def _flat(found: Declared, job: JobSpec) -> FlatParameters | None:
    """Dense parameters and running statistics in one buffer; also where they stay in the worker."""
    tensors = found.flat()
    if not tensors:
        return None
    blocks = job.dense.blocks or place([(name, tuple(tensor.shape), group) for name, tensor, group in tensors], 1)
    return FlatParameters(tensors, blocks, len(found.used) if found.statistics else None)


def _device_of(model: nn.Module | None) -> torch.device:
    parameter = None if model is None else next(iter(model.parameters()), None)
    if parameter is not None:
        return parameter.device
    return torch.device("cuda" if env.FLEET_DEVICE.get() == "CUDA" else "cpu")
