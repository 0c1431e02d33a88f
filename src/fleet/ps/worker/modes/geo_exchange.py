"""One exchange of geo mode: differences of a window go to the servers, in a thread, while training goes on."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fleet.errors import CommunicationError
from fleet.ps.job.patience import rpc_timeout_s
from fleet.ps.wire.messages import Tensor, Tensors
from fleet.ps.worker.asking.keys import Route
from fleet.ps.worker.asking.lookup import CPU, Lookup, Request
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.calling.pending import PendingPull
from fleet.ps.worker.parts.meters import measured
from fleet.ps.worker.sending.flat import FlatParameters
from fleet.ps.worker.sending.gradients import Gradients, TablePush

# On top of what the calls themselves may take.
_GRACE_S = 30.0


class ChangedRows(NamedTuple):
    """What a window has changed of one table; keys are grouped by server."""

    table: int
    keys: NDArray[np.int64]
    sent: NDArray[np.float32]
    touches: NDArray[np.uint32]
    offsets: NDArray[np.int64]


class AnsweredRows(NamedTuple):
    """The values that servers have now of some rows of a table, and the part of them that this worker sent."""

    table: int
    keys: torch.Tensor
    sent: NDArray[np.float32]
    touches: NDArray[np.uint32]
    rows: torch.Tensor


@dataclass
class Exchange:
    """A push of differences; `result` waits for it."""

    client: Client
    gradients: Gradients
    """The gradients of the dense parameters; rows are added on the way."""
    changed: Sequence[ChangedRows]
    num_workers: int
    """How many workers there are, as far as this one knows, while it is under way."""
    answers: list[AnsweredRows] = field(default_factory=list, init=False)
    dense: list[Tensors] = field(default_factory=list, init=False)
    version: int = field(default=0, init=False)
    _error: BaseException | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="fleet-exchange", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether `result` has nothing to wait for."""
        return not self._thread.is_alive()

    @property
    def is_applied(self) -> bool:
        """Whether all servers have answered."""
        return self.is_done and self._error is None

    def result(self) -> None:
        """Return when the servers have answered; raises what went wrong."""
        with measured("wait"):
            self.wait()
        if self._thread.is_alive():
            raise CommunicationError(
                f"the differences of step {self.gradients.step} of worker {self.client.worker} are still under way "
                f"after {rpc_timeout_s() + _GRACE_S:.0f} s; look at the servers, or raise FLEET_RPC_TIMEOUT_S"
            )
        if self._error is not None:
            raise self._error

    def wait(self) -> None:
        """Return when it is over, however it ended, or when its time is up."""
        self._thread.join(rpc_timeout_s() + _GRACE_S)

    def _run(self) -> None:
        try:
            self._exchange()
        except BaseException as error:
            self._error = error

    def _exchange(self) -> None:
        job, num_workers = self.client.job, self.num_workers
        with measured("route"):
            self.gradients.tables += [_push_of(part) for part in self.changed]
            self.gradients = self.client.encoder.encode(self.gradients)  # rounded, as servers will read them
            asked = [
                _asked(push, part.touches, num_workers, job.tables[push.table].width)
                for push, part in zip(self.gradients.tables, self.changed, strict=True)
            ]
        asked = [one for one in asked if one[0].num_rows]
        lookups = [lookup for lookup, _, _ in asked]
        wants_dense = bool(self.gradients.dense)
        pending = self.client.push(self.gradients, want_dense=wants_dense, is_delta=True, lookups=lookups)
        self.version, self.dense = PendingPull(pending.results, lookups).finish(CPU, False)
        for lookup, sent, touches in asked:
            assert lookup.rows is not None
            self.answers.append(AnsweredRows(lookup.table, lookup.route.grouped, sent, touches, lookup.rows))


def _push_of(part: ChangedRows) -> TablePush:
    keys, sent = torch.from_numpy(part.keys), torch.from_numpy(part.sent)
    return TablePush(part.table, 1.0, keys, sent, part.offsets.tolist())


def _asked(
    push: TablePush, touches: NDArray[np.uint32], num_workers: int, width: int
) -> tuple[Lookup, NDArray[np.float32], NDArray[np.uint32]]:
    """The rows whose values are wanted back: not those that a window has touched once, which are seldom needed soon."""
    values = push.values(width)
    if num_workers == 1:
        keys, sent, ends = push.keys, values, torch.tensor(push.ends)
    else:
        at = np.flatnonzero(touches > 1)
        keys, sent, touches = push.keys[torch.from_numpy(at)], values[at], touches[at]
        ends = torch.from_numpy(np.searchsorted(at, push.ends))
    nothing = torch.empty(0, dtype=torch.int64)
    lookup = Lookup(Request(push.table, ()), width, Route(keys, nothing, ends, None), nothing)
    return lookup, sent, touches


class DenseCopy:
    """The flat parameters of a model, all of which every worker trains: a difference is divided by their number."""

    def __init__(self, flat: FlatParameters) -> None:
        self._flat = flat
        self._start = self._server = self._sent = flat.value_buffer.clone()

    def reset(self) -> None:
        """Begin a window: the model has just been given the servers' values."""
        self._start = self._server = self._flat.value_buffer.clone()

    def difference(self, num_workers: int, num_servers: int, num_groups: int) -> list[list[Tensor]]:
        """End a window: what it has changed, for each server one buffer for each group."""
        flat = self._flat
        self._sent = (flat.value_buffer - self._start) / num_workers
        self._start = flat.value_buffer.clone()
        # The gradient buffer carries the difference for a moment: its spans are what servers expect.
        gradients = flat.gradient_buffer.clone()
        flat.gradient_buffer.copy_(self._sent)
        flat.to_host()
        buffers: list[list[Tensor]] = [
            [b"".join(flat.pieces(server, group)) for group in range(num_groups)] for server in range(num_servers)
        ]
        flat.gradient_buffer.copy_(gradients)
        return buffers

    def merge(self, load: Callable[[], None], num_workers: int, awaited: float) -> None:
        """Go on from what the servers have now, which `load` writes into the model, with what was learned since.

        `awaited`: which part of the other workers has not been heard of in the window that was sent.
        """
        values = self._flat.value_buffer
        own = values.clone()
        load()
        server = values.clone()
        if torch.equal(server, self._server + self._sent):  # nobody else trains them, or the others are only late
            self._start = self._start if awaited else server
            values.copy_(own)
        else:
            target = server + (num_workers - 1) * awaited * self._sent
            values.copy_(target + (own - self._start))
            self._start = target
        self._server = server
