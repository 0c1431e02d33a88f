"""A trainer's side of a program with servers: its parameters, the rows of its lookups, and what it sends.

One `Trainer` belongs to one scope. It joins the servers in the first `recv`, normally that of the startup program, and
leaves them in `stop`, or when the process ends.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fleet.errors import NotReadyError, UsageError
from fleet.ps.worker.asking.lookup import Request
from fleet.ps.worker.asking.side_thread import NoSideThread, SideThread
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.sending.flat import FlatParameters
from fleet.ps.worker.worker import Worker
from fleet.runtime.modules import presence
from fleet.runtime.modules.joined import join
from fleet.runtime.modules.servers import transports
from fleet.strategy.parameter_server import ASyncConfigs
from fleet_programs.jobs import running
from fleet_programs.jobs.lookups import Ids, Shared
from fleet_programs.jobs.server_lookups import with_server_lookups
from fleet_programs.jobs.trainer_variables import read_trainer_variables
from fleet_programs.program.notes import SERVERS_NOTE, TRAFFIC_NOTE
from fleet_programs.program.program import Program
from fleet_programs.transpiler.planning.plan import Plan

if TYPE_CHECKING:
    from fleet_programs.definition.operator import Operator
    from fleet_programs.executor.scope import Scope
    from fleet_programs.jobs.job import ProgramJob
    from fleet_programs.program.block import Block


class Trainer:
    """The worker behind the programs of one scope."""

    def __init__(self, plan: Plan, traffic: dict[str, Any], scope: Scope, device: torch.device) -> None:
        self.plan = plan
        self.scope = scope
        self.job: ProgramJob | None = None
        """The job of `fleet.distributed_optimizer` that its programs are from."""
        self._traffic = traffic
        self._tensors = scope.tensors
        self._device = device
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._is_stopped = False
        self._tables = {spec.name: index for index, spec in enumerate(plan.job.tables)}
        self._lookups: dict[tuple[str, ...], list[Shared]] = {}
        self._gradients: list[torch.Tensor] = []
        self._received: dict[str, torch.Tensor] = {}

    @staticmethod
    def at(scope: Scope) -> Trainer | None:
        """The trainer of a scope, if a program has made one there."""
        found = scope.trainer
        assert found is None or isinstance(found, Trainer), f"{found!r} is no trainer of this package"
        return found

    @staticmethod
    def of(program: Program, scope: Scope, device: torch.device) -> Trainer:
        """The trainer of a scope; made for the program's plan if there is none yet."""
        note = program.notes.get(SERVERS_NOTE)
        known = Trainer.at(scope)
        if note is None and known is not None:
            return known  # a program that was cloned before it was cut: for evaluation
        if note is None:
            raise UsageError(
                "this program sends to servers, but does not say which; take it from DistributeTranspiler or "
                "fleet.distributed_optimizer(...).minimize()"
            )
        plan = Plan.from_note(note)
        if known is not None and known.plan == plan:
            known._belong_to(jobs.get(program.serial))
            return known
        if known is not None and not known._is_stopped:
            raise UsageError(
                "this scope belongs to a program with other servers or parameters; run each in a Scope of its own"
            )
        trainer = Trainer(plan, program.notes.get(TRAFFIC_NOTE, {}), scope, device)
        trainer._belong_to(jobs.get(program.serial))
        scope.trainer = trainer
        running.add(trainer)
        return trainer

    def _belong_to(self, job: ProgramJob | None) -> None:
        if job is not None:
            self.job = job
            job.trainers.add(self)

    @property
    def worker(self) -> Worker:
        """The worker; it joins the servers when it is first asked for."""
        with self._lock:
            if self._is_stopped:
                raise NotReadyError("this worker has stopped; run the startup program to join the servers again")
            if self._worker is None:
                self._worker = self._join()
            return self._worker

    def receive(self, *, is_startup: bool) -> dict[str, torch.Tensor]:
        """The dense parameters, as the servers had them last; a startup program joins again after `stop`.

        They are always the same tensors: a startup program that is run twice must not leave others in their place.
        """
        if is_startup:
            with self._lock:
                self._is_stopped = False
            running.add(self)
        assert self.worker is not None
        return self._received

    @property
    def has_joined(self) -> bool:
        """Whether it has joined the servers and not left them yet."""
        return self._worker is not None

    def _join(self) -> Worker:
        plan = self.plan
        model_dir = None if self.job is None else self.job.model_dir
        connected = transports(plan.endpoints, plan.job.num_workers, model_dir)
        configs = ASyncConfigs()
        for name, value in self._traffic.items():
            setattr(configs, name, value)
        configs.k_steps = plan.k_steps
        progress = None if self.job is None else self.job.progress
        client = Client(connected, plan.trainer_id, plan.job)
        it = join(client, self._take, self._device, configs, progress=progress)
        worker = Worker(
            *(client, it.policy, it.flat, it.device, it.done, it.kept),
            progress=it.progress,
            passing=it.passing,
            side_thread=SideThread(it.device) if it.device.type == "cuda" else NoSideThread(),
            parts=it.parts,
        )
        presence.watch_steps(worker)
        self._lookups.clear()
        try:
            if worker.client.model_dir:
                self._load_own(worker.client.model_dir)
        except BaseException:
            worker.close()
            raise
        if worker.flat is not None:
            worker.flat.give_gradients()
            self._received = dict(self._parameters())
            self._gradients = [view for tensor in self._received.values() if (view := tensor.grad) is not None]
        return worker

    def _load_own(self, model_dir: str) -> None:
        """The servers began with a checkpoint: counters and running means of this trainer are in it, too."""
        shapes = {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}
        for name, array in read_trainer_variables(Path(model_dir), shapes).items():
            self._tensors[name].copy_(torch.from_numpy(array))

    def _parameters(self) -> list[tuple[str, torch.Tensor]]:
        missing = [name for name, _ in self.plan.job.dense.shapes if name not in self._tensors]
        if missing:
            raise NotReadyError(
                f"parameter {missing[0]!r} has no value; run the startup program first: "
                "exe.run(default_startup_program())"
            )
        return [(name, self._tensors[name]) for name, _ in self.plan.job.dense.shapes]

    def _take(self) -> FlatParameters | None:
        dense = self.plan.job.dense
        if not dense.groups:
            return None
        groups = {block.parameter: block.group for block in dense.blocks}
        return FlatParameters([(name, tensor, groups[name]) for name, tensor in self._parameters()], dense.blocks)

    def with_server_lookups(self, ops: Sequence[Operator], block: Block) -> list[Operator]:
        """The operators, with requests to servers in place of lookups: for a program that may never have been cut."""
        return with_server_lookups(ops, block, self._tables)

    # What a step does.

    def look_up(
        self, key: tuple[str, ...], tables: Sequence[str], ids: Sequence[Ids], *, is_trained: bool
    ) -> list[torch.Tensor]:
        """The rows of every lookup, in one request to each server; `key` says which operator asks."""
        worker = self.worker
        groups: dict[str, list[int]] = {}
        for position, table in enumerate(tables):
            groups.setdefault(table, []).append(position)
        requests = [
            Request(self._tables[table], tuple(ids[position].real for position in positions))
            for table, positions in groups.items()
        ]
        lookups = worker.lookups(requests, with_grad=is_trained)
        shared = [Shared(lookup, positions, ids) for lookup, positions in zip(lookups, groups.values(), strict=True)]
        if is_trained:
            self._lookups[key] = shared
        out: list[torch.Tensor] = [torch.empty(0)] * len(tables)
        for one in shared:
            for position, rows in zip(one.positions, one.split(), strict=True):
                out[position] = rows
        return out

    def take_gradients(self, key: tuple[str, ...], grads: Sequence[torch.Tensor]) -> None:
        """The gradients of the rows that `look_up` with this key gave; they go out with the next `send`."""
        for one in self._lookups.pop(key):
            one.add([grads[position] for position in one.positions])

    def check(self, gradients: Sequence[torch.Tensor]) -> None:
        """UsageError if gradients of the dense parameters, or of rows, hold a NaN or an Inf; the step is given up."""
        worker = self.worker
        every = [one for one in (*gradients, *worker.row_gradients()) if one.numel()]
        norms = torch._foreach_norm(every, math.inf)
        if not torch.stack(norms).isfinite().all():
            self._lookups.clear()
            worker.give_up()
            raise UsageError(
                f"the gradients of worker {self.plan.trainer_id}, step {worker.num_steps} hold a NaN or an Inf; "
                "nothing was updated or sent. Look at the batch, or lower the learning rate"
            )

    def send(self, gradients: Sequence[torch.Tensor], rates: dict[str, float]) -> None:
        """Push everything; afterwards the parameters are those of the next step, as the mode has it."""
        worker = self.worker
        if self._gradients and not worker.policy.trains_locally:
            torch._foreach_copy_(
                self._gradients, [g.reshape(v.shape) for g, v in zip(gradients, self._gradients, strict=True)]
            )
        dense = {index: rates[name] * factor for index, (name, factor) in enumerate(self.plan.dense_rates)}
        tables = {index: rates[name] * factor for index, (name, factor) in enumerate(self.plan.table_rates)}
        worker.step(dense, tables)

    # The end.

    def flush(self) -> None:
        """Return when all that was sent has been applied."""
        if self._worker is not None:
            self._worker.policy.flush()

    def stop(self) -> None:
        """Send what is queued and take leave of the servers; parameters of the scope are the servers' last."""
        worker = self._leave()
        if worker is not None:
            worker.stop()

    def drop(self) -> None:
        """Let the connections go without a word: something went wrong."""
        worker = self._leave()
        if worker is not None:
            worker.close()

    def _leave(self) -> Worker | None:
        worker, self._worker = self._worker, None
        self._is_stopped = True
        running.discard(self)
        return worker


jobs: weakref.WeakValueDictionary[int, ProgramJob] = weakref.WeakValueDictionary()
"""By the serial of a program: the job that has distributed it."""
