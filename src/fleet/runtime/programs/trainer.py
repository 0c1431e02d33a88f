"""A trainer's side of a program with servers: its parameters, the rows of its lookups, and what it sends.

One `Trainer` belongs to one scope. It joins the servers in the first `recv`, normally that of the startup program, and
leaves them in `stop`, or when the process ends.
"""

from __future__ import annotations

import atexit
import sys
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fleet import env
from fleet.errors import NotReadyError, UsageError
from fleet.ps.client import Client
from fleet.ps.flat import FlatParameters
from fleet.ps.lookup import Lookup, Request
from fleet.ps.transport import LocalTransport, Transport
from fleet.runtime.join import enter
from fleet.static.operator import Operator
from fleet.strategy.parameter_server import ASync
from fleet.transpiler.passes.prefetch import lookup_attrs
from fleet.transpiler.plan import Plan
from fleet.transpiler.updates import LOOKUPS

if TYPE_CHECKING:
    from fleet.ps.worker import Worker
    from fleet.static.block import Block
    from fleet.static.executor.scope import Scope
    from fleet.static.program import Program

KEY = "trainer"
PLAN_NOTE = "servers"
TRAFFIC_NOTE = "traffic"


class Trainer:
    """The worker behind the programs of one scope."""

    def __init__(self, plan: Plan, traffic: dict[str, Any], scope: Scope, device: torch.device) -> None:
        self.plan = plan
        self._traffic = traffic
        self._tensors = scope.tensors
        self._device = device
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._is_stopped = False
        self._tables = {spec.name: index for index, spec in enumerate(plan.job.tables)}
        self._lookups: dict[tuple[str, ...], list[_Shared]] = {}
        self._gradients: list[torch.Tensor] = []
        self._received: dict[str, torch.Tensor] = {}

    @staticmethod
    def of(program: Program, scope: Scope, device: torch.device) -> Trainer:
        """The trainer of a scope; made for the program's plan if there is none yet."""
        note = program.notes.get(PLAN_NOTE)
        known: Trainer | None = scope.attached.get(KEY)
        if note is None and known is not None:
            return known  # a program that was cloned before it was cut: for evaluation
        if note is None:
            raise UsageError(
                "this program sends to servers, but does not say which; take it from DistributeTranspiler or "
                "fleet.distributed_optimizer(...).minimize()"
            )
        plan = Plan.from_note(note)
        if known is not None and known.plan == plan:
            return known
        if known is not None and not known._is_stopped:
            raise UsageError(
                "this scope belongs to a program with other servers or parameters; run each in a Scope of its own"
            )
        trainer = Trainer(plan, program.notes.get(TRAFFIC_NOTE, {}), scope, device)
        scope.attached[KEY] = trainer
        _running.add(trainer)
        return trainer

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
            _running.add(self)
        assert self.worker is not None
        return self._received

    @property
    def has_joined(self) -> bool:
        return self._worker is not None

    def _join(self) -> Worker:
        plan = self.plan
        transports = connect(plan)
        configs = ASync()
        for name, value in self._traffic.items():
            setattr(configs, name, value)
        configs.k_steps = plan.k_steps
        worker = enter(Client(transports, plan.trainer_id, plan.job), self._take, self._device, configs)
        self._lookups.clear()
        if worker.client.model_dir:
            self._load_own(worker.client.model_dir)
        if worker.flat is not None:
            self._received = dict(self._parameters())
            self._gradients = [view for tensor in self._received.values() if (view := tensor.grad) is not None]
        return worker

    def _load_own(self, model_dir: str) -> None:
        """The servers began with a checkpoint: counters and running means of this trainer are in it, too."""
        from fleet.runtime.programs.saving import read_own

        for name, array in read_own(Path(model_dir)).items():
            known = self._tensors.get(name)
            if known is not None and tuple(known.shape) == array.shape:
                known.copy_(torch.from_numpy(array))

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

    def adopt(self, ops: Sequence[Operator], block: Block) -> list[Operator]:
        """Lookups of a program that was never cut, in tables whose rows are on servers, become requests to them.

        So a program cloned for evaluation before `transpile` works as well.
        """
        lookups = [op for op in ops if op.type in LOOKUPS and op.input("W")[0] in self._tables]
        if not lookups:
            return list(ops)
        written = {name for op in ops for name in op.output_names}
        first = [op for op in lookups if op.input("Ids")[0] not in written]
        made = {
            id(group[0]): _request(group, block)
            for group in (first, *([op] for op in lookups if op not in first))
            if group
        }
        gone = {id(op) for op in lookups} - made.keys()
        return [made.get(id(op), op) for op in ops if id(op) not in gone]

    # What a step does.

    def look_up(
        self, key: tuple[str, ...], tables: Sequence[str], ids: Sequence[torch.Tensor], *, is_trained: bool
    ) -> list[torch.Tensor]:
        """The rows of every lookup, in one request to each server; `key` says which operator asks."""
        worker = self.worker
        groups: dict[str, list[int]] = {}
        for position, table in enumerate(tables):
            groups.setdefault(table, []).append(position)
        requests = [
            Request(self._tables[table], tuple(ids[position] for position in positions))
            for table, positions in groups.items()
        ]
        lookups = worker.lookups(requests, with_grad=is_trained)
        shared = [
            _Shared(lookup, positions, [ids[position].numel() for position in positions])
            for lookup, positions in zip(lookups, groups.values(), strict=True)
        ]
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

    def send(self, gradients: Sequence[torch.Tensor], rates: dict[str, float]) -> None:
        """Push everything; afterwards the parameters are those of the next step, as the mode has it."""
        worker = self.worker
        if self._gradients and not worker.mode.trains_locally:
            torch._foreach_copy_(
                self._gradients, [g.reshape(v.shape) for g, v in zip(gradients, self._gradients, strict=True)]
            )
        dense = [rates[name] * factor for name, factor in self.plan.dense_rates]
        tables = {index: rates[name] * factor for index, (name, factor) in enumerate(self.plan.table_rates)}
        worker.step(dense, tables)

    # The end.

    def flush(self) -> None:
        """Return when all that was sent has been applied."""
        if self._worker is not None:
            self._worker.mode.flush()

    def stop(self) -> None:
        """Send what is queued and take leave of the servers; parameters of the scope are the servers' last."""
        worker, self._worker = self._worker, None
        self._is_stopped = True
        _running.discard(self)
        if worker is not None:
            worker.stop()

    def drop(self) -> None:
        """Let the connections go without a word: something went wrong."""
        worker, self._worker = self._worker, None
        self._is_stopped = True
        if worker is not None:
            worker.close()


def _request(lookups: Sequence[Operator], block: Block) -> Operator:
    return Operator(
        "prefetch",
        {"Ids": [op.input("Ids")[0] for op in lookups]},
        {"Out": [op.output("Out")[0] for op in lookups]},
        lookup_attrs(lookups, block),
    )


class _Shared:
    """All lookups of one table in one operator."""

    def __init__(self, lookup: Lookup, positions: list[int], sizes: list[int]) -> None:
        self.lookup = lookup
        self.positions = positions
        self.sizes = sizes

    def split(self) -> Sequence[torch.Tensor]:
        rows = self.lookup.rows
        assert rows is not None
        found = rows.detach().index_select(0, self.lookup.inverse)
        return [found] if len(self.sizes) == 1 else found.split(self.sizes)

    def add(self, grads: Sequence[torch.Tensor]) -> None:
        rows = self.lookup.rows
        assert rows is not None
        flat = [grad.reshape(-1, rows.shape[1]) for grad in grads]
        total = torch.zeros_like(rows, requires_grad=False)
        rows.grad = total.index_add_(0, self.lookup.inverse, flat[0] if len(flat) == 1 else torch.cat(flat))


def connect(plan: Plan) -> Sequence[Transport]:
    """One transport for each server; without servers, one in this process."""
    if not plan.endpoints:
        from fleet.ps.service import Service

        if plan.job.num_workers > 1:
            raise UsageError(
                f"this job has {plan.job.num_workers} workers and no servers; start it with servers: "
                "fleetrun --server_num 2 --worker_num 2 train.py"
            )
        return [LocalTransport(Service())]
    from fleet.ps.grpc_client import GrpcTransport

    return [GrpcTransport(endpoint, env.FLEET_JOB_TOKEN.get()) for endpoint in plan.endpoints]


_running: weakref.WeakSet[Trainer] = weakref.WeakSet()


def stop_all() -> None:
    """Stop every trainer of this process."""
    for trainer in list(_running):
        trainer.stop()


@atexit.register
def _at_exit() -> None:
    """A script that ends without `stop_worker` loses nothing; one that failed takes no leave."""
    has_failed = getattr(sys, "last_value", None) is not None
    for trainer in list(_running):
        if has_failed:
            trainer.drop()
        else:
            trainer.stop()
