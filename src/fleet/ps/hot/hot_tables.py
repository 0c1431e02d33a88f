"""The tables of a job whose hot rows are trained where the model is, and what keeps everybody else from noticing."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from google.protobuf.message import Message

from fleet.errors import UsageError
from fleet.ps.hot.hot_rows import HotRows, SlotGradients, SlotPlacement
from fleet.ps.job.rule_table import RULES
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.server.service import Service
from fleet.ps.wire.messages import Tensors
from fleet.ps.wire.transport import Answer, LocalTransport, Transport
from fleet.ps.worker.asking.lookup import Lookup
from fleet.ps.worker.asking.side_thread import After, NoSideThread
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.parts.contract import Done, NoHotTables, Update
from fleet.ps.worker.sending.norms import is_finite, nonfinite_error

UNCONCERNED = frozenset({"Declare", "Start", "Keep", "Push", "Meet", "Take"})
"""Calls that read no rows; a push has none of these tables."""
CHANGES_ROWS = frozenset({"Assign", "Load", "Shrink", "Forget"})


class HotTables(NoHotTables):
    """Rows of some tables, by index. Used by the thread that trains; the side thread does what touches the tables."""

    def __init__(
        self, client: Client, sizes: Mapping[int, int], device: torch.device, side_thread: NoSideThread, done: Done
    ) -> None:
        """`sizes`: how many rows of each table."""
        self.sizes = dict(sizes)
        job, transport = client.job, client.transports[0]
        assert isinstance(transport, LocalTransport)
        assert isinstance(transport.service, Service)
        self._state, self._side_thread, self._job, self._done = transport.service.state, side_thread, job, done
        self._worker = client.worker
        self._used: list[tuple[Lookup, torch.Tensor]] = []
        """The lookups whose rows this step trains, each with its gradients."""
        tables = self._state.held.tables
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="fleet-write-back")
        self._rows = {
            table: HotRows(job.tables[table], tables[table], size, device, self._writer)
            for table, size in sizes.items()
        }
        client.server_set.go_by(0, _HotTransport(transport, self))

    @property
    def nbytes(self) -> int:
        """The bytes of device memory in use."""
        return sum(rows.nbytes for rows in self._rows.values())

    def __contains__(self, table: int) -> bool:
        return table in self._rows

    def expect(self, table: int) -> SlotPlacement:
        return self._rows[table].expect()

    def place(self, lookup: Lookup, placement: SlotPlacement) -> None:
        self._rows[lookup.table].place(lookup.route.grouped, placement)
        lookup.placement = placement

    def fill(self, lookup: Lookup) -> None:
        assert lookup.placement is not None
        lookup.rows = self._rows[lookup.table].rows(lookup.placement, lookup.has_padding)

    def begin(self, used: Sequence[Lookup], *, is_new: bool) -> None:  # noqa: ARG002
        """UsageError if a gradient of a row that is trained here is a NaN or an Inf, and may not be skipped."""
        self._used = [
            (lookup, grads.to(torch.float32))
            for lookup in used
            if lookup.placement is not None and (grads := lookup.row_gradients) is not None
        ]
        if self._job.nonfinite != "skip":
            for lookup, grads in self._used:
                if not is_finite(grads):
                    raise nonfinite_error(
                        f"table {self._job.tables[lookup.table].name!r}", self._worker, self._done.num_steps
                    )

    def after_push(self, update: Update) -> None:
        """Train the rows of the step."""
        used, self._used = self._used, []
        skips = self._job.nonfinite == "skip"
        for table in sorted({lookup.table for lookup, _ in used}):
            own = [
                SlotGradients(lookup.placement, grads)
                for lookup, grads in used
                if lookup.table == table and lookup.placement is not None
            ]
            skipped = self._rows[table].apply(own, update.table_lrs[table], self._state.clock.now, skips=skips)
            if skipped is not None and (num := int(skipped)):
                self._state.held.skipped += num
                self._state.stats.count(skipped=num)

    def write_back(self) -> None:
        """Write all rows into the tables."""
        self._each(HotRows.write_back)

    def reload(self) -> None:
        """Read all rows from the tables again."""
        self._each(HotRows.reload)

    def _each(self, work: Callable[[HotRows], None]) -> None:
        """Do something with the rows of each table in the side thread, after what it was given before; wait for it."""

        def run(after: After) -> None:
            after()
            for rows in self._rows.values():
                work(rows)

        self._side_thread.make(run).get()

    def close(self) -> None:
        self._writer.shutdown()

    def concerns(self, method: str, header: Any) -> bool:
        """Whether rows must be written back before a call."""
        if method == "Pull":
            return any(table in self._rows for table in header.tables)
        return method not in UNCONCERNED


class _HotTransport(Transport):
    """Calls the service in this process, and writes rows back first, so that every answer has them."""

    def __init__(self, inner: LocalTransport, hot: HotTables) -> None:
        self.endpoint, self.service = inner.endpoint, inner.service
        self._inner, self._hot = inner, hot

    def call(self, method: str, header: Message, tensors: Tensors, timeout_s: float) -> Answer:
        if self._hot.concerns(method, header):
            self._hot.write_back()
        answer = self._inner.call(method, header, tensors, timeout_s)
        if method in CHANGES_ROWS:
            self._hot.reload()
        return answer

    def close(self) -> None:
        self._inner.close()


def refuse_hot(job: JobSpec, spec: TableSpec, *, has_servers: bool) -> None:
    """UsageError if the rows of a table cannot be trained where the model is."""

    def error(what: str, remedy: str) -> UsageError:
        return UsageError(f"table {spec.name!r} has cache='gpu', which {what}; {remedy}, or leave the cache out")

    if has_servers:
        raise error(
            "is for one worker with its tables in its own process, and this job has servers",
            "start the script without them (python train.py)",
        )
    if job.mode == "geo":
        raise error("geo mode has no use for, since it trains copies", "use sync or async mode")
    exact = [name for name, rule in RULES.items() if rule.formula is not None and not rule.bound]
    if spec.rule.name not in exact:
        raise error(f"does not have rule {spec.rule.name} to the bit", f"choose one of {', '.join(exact)}")
    if spec.entry.name != "always":
        raise error(f"knows no entry policy, such as {spec.entry.name}", "take entry= away")
    for name, value, usual in (
        ("dtype", spec.dtype, "float32"),
        ("max_norm", spec.max_norm, None),
        ("max_bytes", spec.max_bytes, 0),
        ("max_rows", spec.max_rows, 0),
        ("memory", spec.memory, 0),
        ("wire", spec.row_format or "float32", "float32"),
        ("wire", spec.gradient_format or "float32", "float32"),
    ):
        if value != usual:
            raise error(f"does not go with {name}={value!r}", f"take {name}= away")
