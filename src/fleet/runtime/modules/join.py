"""`fleet.init_worker()`: the declaration of a job goes to the servers, and a worker that runs it comes back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from fleet import env
from fleet.errors import UsageError
from fleet.jobfiles.ending import begin_work
from fleet.nn.graphs import record_parts
from fleet.ps.hot.hot_tables import HotTables, refuse_hot
from fleet.ps.job.placement import place
from fleet.ps.job.spec import JobSpec
from fleet.ps.job.staging import host_buffer
from fleet.ps.server.service import Service
from fleet.ps.wire.transport import LocalTransport
from fleet.ps.worker.asking.aside import Aside
from fleet.ps.worker.asking.given_rows import write_rows
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.life.inputs import Inputs
from fleet.ps.worker.life.passing import Passing
from fleet.ps.worker.life.redo import Redo
from fleet.ps.worker.modes import POLICIES, make_push_policy
from fleet.ps.worker.modes.base import Setup
from fleet.ps.worker.modes.sync import Sync
from fleet.ps.worker.optimizer import ServerOptimizer
from fleet.ps.worker.sending.clipped import mark_shared
from fleet.ps.worker.sending.dense_ahead import make_ahead
from fleet.ps.worker.sending.flat import FlatParameters
from fleet.ps.worker.sending.kept import ChangedTensors, KeptTensors
from fleet.ps.worker.worker import Worker
from fleet.runtime.modules.clipping import check_clipping
from fleet.runtime.modules.combine import check_combining, combine
from fleet.runtime.modules.declare import Declared, declare, job_of, shares
from fleet.strategy import DistributedStrategy
from fleet.strategy.mode import Mode
from fleet.strategy.parameter_server import ASyncConfigs

if TYPE_CHECKING:
    from fleet.ps.job.placement import Dispatch, Dispatcher
    from fleet.ps.wire.transport import Transport
    from fleet.ps.worker.asking.given_rows import GivenRows
    from fleet.ps.worker.life.progress import Progress
    from fleet.roles import Identity

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
    progress: Progress | None = None,
    meeting: str = "",
) -> Worker:
    """Declare the job, agree on the first values of the model, and bind model and optimizers to the servers.

    `meeting` is a name under which all workers meet, if the strategy has them combine their gradients.
    `layout` is that of the servers which `connect` reaches; `reach` those of another, by their endpoints.
    Worker 0's values are everybody's, unless the servers were started from a checkpoint: then theirs are.
    """
    found = declare(model, optimizers)
    job, kept = job_of(found, who, strategy, dispatcher)
    for table in found.caches:
        refuse_hot(job, job.tables[table], has_servers=bool(who.server_endpoints))
    device = found.dense[0][1].device if found.dense else _device_of(model)
    is_averaged = strategy.dense == "allreduce"
    if is_averaged and POLICIES[job.mode].trains_locally:
        raise UsageError(
            "strategy.dense = 'allreduce' and geo mode both keep dense parameters in the workers; choose one"
        )
    if is_averaged and progress is not None and who.num_workers > 1:
        raise UsageError(
            "strategy.dense = 'allreduce' keeps dense parameters in the workers, and in a durable job a worker may be "
            "started again without them; use 'server'"
        )
    check_combining(strategy, job, progress)
    check_clipping(strategy, job)
    flats: list[FlatParameters | None] = []

    def take() -> FlatParameters | None:
        flats.append(_flat(found, job))
        return flats[0] if job.dense.groups else None

    client = Client(connect(), who.index, job, layout)
    client.plan = lambda num_servers: job_of(found, who, strategy, dispatcher, num_servers)[0]
    client.connect = reach
    client.absent_after_s = _absent_after_s(strategy, job, progress)
    worker = enter(client, take, device, strategy.a_sync_configs, kept, progress, found.first_rows)
    try:
        combine(client, strategy, meeting)
    except BaseException:
        worker.close()
        raise
    worker.flat = flats[0]
    if device.type == "cuda":
        worker.rouses = _pin(client, device)
    if found.caches and optimizers:
        _warm(worker, found.caches)
    if is_averaged:  # a step has a collective of all workers, which servers know nothing of
        worker.passing = None
    worker.has_optimizer = bool(optimizers)
    worker.count.num_optimizers = len(optimizers)
    worker.other_names = found.others
    for module, indexes in found.modules:
        module.bind(worker, indexes)
    if strategy.cuda_graphs and model is not None and optimizers:
        _record(worker, model)
    if worker.flat is not None and optimizers and job.mode == Mode.SYNC and job.num_workers > 1:
        worker.hooks = [one.register_post_accumulate_grad_hook(mark_shared) for _, one, _ in found.dense]
    each = shares(found, job, optimizers, average if is_averaged else None)
    for optimizer, share in zip(optimizers, each, strict=True):
        optimizer.bind(worker, share)
    goes_ahead = strategy.wire_configs.dense_ahead and (job.clip_norm is None or job.clips_on_servers)
    if optimizers and job.dense.groups and job.mode == Mode.SYNC and goes_ahead:
        worker.dense_ahead = make_ahead(worker.flat, client, lambda: worker.num_updates >= client.resumed_updates)
    return worker


def enter(
    client: Client,
    take: Callable[[], FlatParameters | None],
    device: torch.device,
    configs: ASyncConfigs,
    kept: KeptTensors | None = None,
    progress: Progress | None = None,
    first_rows: Mapping[int, GivenRows] | None = None,
) -> Worker:
    """Declare the job to the servers, then take the tensors that they hold and agree on their first values.

    Those are worker 0's, and so are the first rows of tables, unless the servers have some already.
    """
    job, kept = client.job, kept or KeptTensors()
    policy = None
    try:
        is_started, version = client.declare()
        flat = take()
        is_first = client.worker == 0 and not is_started
        if is_first and (flat is not None or kept or first_rows):
            for table, rows in (first_rows or {}).items():
                write_rows(client, table, rows)
            groups = range(len(job.dense.groups))
            client.start(
                [
                    [*(flat.values(server, group) for group in groups if flat is not None), *kept.values(server)]
                    for server in range(job.num_servers)
                ]
            )
        policy = make_push_policy(
            Setup(
                client,
                flat,
                device,
                version,
                k_steps=max(1, configs.k_steps),
                max_merge=configs.max_merge_var_num,
                queue_size=configs.send_queue_size,
                wait_s=configs.send_wait_times * 0.01,
                independent_receive=configs.independent_recv_thread,
                pushes_before_receive=configs.min_send_grad_num_before_recv,
                cache_rows=configs.cache_rows,
                cache_staleness=configs.cache_staleness,
            )
        )
        policy.refresh(is_exact=not client.resumed_updates)  # as a former life had them
        worker = Worker(client, policy, flat, device, version if job.mode == Mode.SYNC else 0, kept)
        if isinstance(policy, Sync) and job.num_workers > 1:
            worker.passing = Passing(worker, policy)
        _go_on(worker, progress)
        if not is_first:
            worker.take_kept()
        _keep_changed(worker, progress)
        begin_work()
    except BaseException:
        client.close()
        if policy is not None:
            policy.close()
        raise
    return worker


def _pin(client: Client, device: torch.device) -> bool:
    """Have a service in this process pull rows into memory from which copies to the GPU are quick; is there one?"""
    is_here = False
    for transport in client.transports:
        if isinstance(transport, LocalTransport) and isinstance(transport.service, Service):
            transport.service.state.held.rows_memory = lambda *shape: host_buffer(shape, device).numpy()
            is_here = True
    return is_here


def _warm(worker: Worker, caches: Mapping[int, int]) -> None:
    """Have hot rows of some tables trained where the model is."""
    try:
        worker.aside = worker.aside or Aside(worker.device)
        worker.hot = HotTables(worker.client, caches, worker.device, worker.aside)
    except BaseException:
        worker.close()
        raise
    if worker.device.type != "cuda":
        _log.warning("cache='gpu': the model is on the %s, and so is the cache; it saves no time", worker.device.type)


def _record(worker: Worker, model: nn.Module) -> None:
    """Have the parts of a model without tables replayed as CUDA graphs until the worker has left."""
    if worker.device.type == "cuda":
        worker.undo_graphs = record_parts(model)
    else:
        _log.warning("strategy.cuda_graphs: the model is on the %s; nothing is recorded", worker.device.type)


def _absent_after_s(strategy: DistributedStrategy, job: JobSpec, progress: Progress | None) -> float:
    """How long a step waits for an absent worker; UsageError where nobody could be absent and come back."""
    seconds = strategy.wait_for_workers_s
    if seconds is None:
        return 0.0
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


def _go_on(worker: Worker, progress: Progress | None) -> None:
    """Begin where a former life of this worker was, if it had one and the servers have steps of it."""
    client = worker.client
    worker.progress, worker.num_updates = progress, client.resumed_updates
    if progress is not None:
        progress.check_run(client.run)
        progress.resume(client.resumed_position)
        worker.num_updates -= progress.num_redone
        worker.count.num = progress.num_steps
        inputs = Inputs.of(client.worker) if client.job.mode == Mode.SYNC else None
        if inputs is not None:
            first, last = worker.num_updates + 1, client.resumed_updates
            worker.redo = Redo(inputs, worker.flat, worker.policy, first, last)
            progress.begin_again = worker.redo.begin


def _keep_changed(worker: Worker, progress: Progress | None) -> None:
    """Have what the script changes of the rest of its model go with every push, and take up what a former life had."""
    if progress is None or not worker.kept:
        return
    changed = ChangedTensors(worker.kept)
    stored = progress.add_part("kept", changed.state, changed.restore)
    if stored is not None:
        changed.restore(stored)


def _flat(found: Declared, job: JobSpec) -> FlatParameters | None:
    """Dense parameters and running statistics in one buffer; also where it stays in the worker."""
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
