"""Who reads which piece of an epoch, decided as it goes: whoever is free takes the next, so fast workers read more.

A reader (`fleet.data.files(queue=True)`) cuts its files into pieces, and gives each a number: its place in the order of
the epoch. A `PieceSource` hands out those numbers, each to one worker. `piece_source` chooses where they come from: the
first server of a job with servers, the store of torch's process group in a collective job, a counter where there is one
worker.

`take` is called from the thread that reads ahead, so the thread that trains never waits for it. How late an epoch can
end is bounded by what a worker has in hand when the queue is empty: the piece it trains on and those it has read ahead.
With servers that is two pieces of a fast worker, for a slow one is not handed the last ones; otherwise two pieces of
the slowest.

In sync mode and in collective jobs every step waits for the slowest worker anyway: there a queue evens out pieces of
different sizes, and machines of different speed only with `uneven="join"`, at the end. It is for the other modes.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fleet.errors import CommunicationError, NotReadyError, NotSupportedError
from fleet.observe.waits.waiting import Awaited, LongWait, workers_text
from fleet.ps.job.patience import rpc_timeout_s
from fleet.ps.meetings.pieces import Extent
from fleet.ps.proto import ps_pb2
from fleet.ps.worker.life.membership import HandedBack, Membership

if TYPE_CHECKING:
    import torch.distributed as dist

    from fleet.api import Fleet
    from fleet.ps.worker.calling.client import Client

NUM_EPOCHS = 4
"""How many epochs a source remembers: a reader is in one, and may be ahead in the next."""
WHAT = "fleet.data.files(queue=True)"
WAIT_S = 0.1
"""How long a worker that has read all of its own waits before it asks again whether there is more for it."""


def piece_source(job: Fleet, name: str) -> PieceSource:
    """Where the pieces of one reader come from. Each reader has a name of its own, the same on all workers."""
    membership = None if job.progress is None else job.progress.membership
    if membership is None and job.is_collective() and job.worker_num() > 1:
        import torch.distributed as dist

        return StorePieces(dist.distributed_c10d._get_default_store(), name)
    if job.progress is None and job.worker_num() == 1:
        return LocalPieces()
    return ServerPieces(lambda: job.worker_client(WHAT), name, membership)


@dataclass
class _Reading:
    """One reading of an epoch by this worker."""

    round: int
    """How often it was begun before."""
    extent: Extent
    own: list[int] = field(default_factory=list)
    """What this worker was handed."""
    rows_taken: dict[int, int] = field(default_factory=dict)
    """How many rows are trained on of pieces that others have handed back."""
    num_taken: int = 0
    """How many of those were taken in this life, or lie behind its position."""
    breaks: list[int] = field(default_factory=list)
    """After how many of those a life makes the last batch of what it has, which is to be the same batch in the next."""
    is_at_break: bool = False
    is_over: bool = False


class PieceSource(ABC):
    """Hands out the pieces of epochs, each to one worker, and remembers what it was answered. Safe from any thread.

    The position of a worker needs, of each epoch it has begun, how many takes lie behind it and how far it has read the
    pieces of those takes. Its next life begins the epoch with that number as `taken`, and gets what the former one took
    after that, before anything new.

    A checkpoint from which other workers go on needs more: which pieces each worker has read to their end. Workers note
    their positions at different moments, and a piece that one takes between two of them is in nobody's position. So
    what is left is everything but what is done, which of each worker is `own(epoch)` less what it still reads. It is
    not everything beyond the highest piece that somebody knows.
    """

    may_get_more = False
    """Whether there may be a piece for this worker after it was told that there is none: `wait` says so."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readings: dict[int, _Reading] = {}
        self._num_begun: dict[int, int] = {}

    def begin(self, epoch: int, first: int, total: int, extra: Sequence[int], taken: int = 0) -> None:
        """Hand out the pieces of `extra` (before `first`, ascending), then `first` to `total` - 1.

        All workers call it with the same values before they take, once for each time that they read the epoch: a second
        time means that the script has gone back, and all pieces are handed out again. `taken`: how many takes of this
        epoch a former life of this worker has behind its position; then the values of the first to begin it count.
        """
        extent = Extent(first, total, tuple(extra))
        extent.check()
        with self._lock:
            reading = _Reading(self._num_begun.get(epoch, 0), extent, is_over=not taken and not len(extent))
            if not reading.is_over:
                reading.own = self._begun(epoch, reading, taken)
            if taken > len(reading.own):
                raise CommunicationError(
                    f"this worker's position has {taken} pieces of epoch {epoch} behind it, but it was handed "
                    f"{len(reading.own)}: the position is of another run of the job. Start it again from a checkpoint"
                )
            reading.num_taken = taken
            reading.breaks = sorted(end for end in reading.breaks if end > taken)
            self._readings[epoch] = reading
            self._num_begun[epoch] = reading.round + 1
            for old in sorted(self._readings)[:-NUM_EPOCHS]:
                del self._readings[old]

    def take(self, epoch: int) -> int | None:
        """The next piece for this worker; None when there are no more for it, and from then on."""
        with self._lock:
            reading = self._reading(epoch)
            if reading.breaks and reading.num_taken == reading.breaks[0]:
                del reading.breaks[0]
                reading.is_at_break = True
                return None
            if reading.num_taken == len(reading.own) and not reading.is_over:
                piece = self._next(epoch, reading)
                if piece is None:
                    reading.is_over = not self.may_get_more
                else:
                    reading.own.append(piece)
            if reading.num_taken == len(reading.own):
                return None
            reading.num_taken += 1
            return reading.own[reading.num_taken - 1]

    def own(self, epoch: int) -> list[int]:
        """What this worker was handed of an epoch, in the order of its takes, those of former lives included."""
        with self._lock:
            return list(self._reading(epoch).own)

    def rows_taken(self, epoch: int, piece: int) -> int:
        """See `PieceSource`."""
        with self._lock:
            return self._reading(epoch).rows_taken.get(piece, 0)

    def wait(self, epoch: int) -> bool:  # noqa: ARG002
        """See `PieceSource`."""
        return False

    def back(self, epoch: int, num_done: int, rows_taken: int) -> HandedBack | None:  # noqa: ARG002
        """See `PieceSource`."""
        return None

    def _reading(self, epoch: int) -> _Reading:
        if epoch not in self._readings:
            raise NotReadyError(f"epoch {epoch} of a queue was not begun, or is long over")
        return self._readings[epoch]

    @abstractmethod
    def _begun(self, epoch: int, reading: _Reading, taken: int) -> list[int]:
        """What former lives of this worker were handed."""

    @abstractmethod
    def _next(self, epoch: int, reading: _Reading) -> int | None:
        """A piece that was not handed out before."""


class LocalPieces(PieceSource):
    """For one worker, which takes them all, in order."""

    def _begun(self, epoch: int, reading: _Reading, taken: int) -> list[int]:  # noqa: ARG002
        return [reading.extent.piece(place) for place in range(min(taken, len(reading.extent)))]

    def _next(self, epoch: int, reading: _Reading) -> int | None:  # noqa: ARG002
        place = len(reading.own)
        return reading.extent.piece(place) if place < len(reading.extent) else None


class ServerPieces(PieceSource):
    """From the first server of a job: see `fleet.ps.meetings.pieces`. `membership`: workers come and go."""

    def __init__(self, client: Callable[[], Client], name: str, membership: Membership | None = None) -> None:
        super().__init__()
        self._client = client
        self._name = name
        self._membership = membership
        self.may_get_more = membership is not None

    def wait(self, epoch: int) -> bool:
        """See `PieceSource`."""
        if self._membership is None:
            return False
        with self._lock:
            reading = self._reading(epoch)
            if reading.is_at_break:  # of a former life
                reading.is_at_break = False
                return True
        with LongWait(f"worker {self._client().worker}") as wait:
            while True:
                self._membership.idle()
                with self._lock:
                    reading = self._reading(epoch)
                    reply = self._ask(epoch, reading, len(reading.own) + 1, is_idle=True)
                    reading.own.extend(reply.pieces)
                    reading.is_over = reply.is_over
                if reply.pieces or reply.is_over:
                    return bool(reply.pieces)
                if wait.is_due:
                    late = tuple(reply.awaited)
                    wait.tell(Awaited(f"{workers_text(late)} to train on the last pieces of epoch {epoch}", late))
                time.sleep(WAIT_S)

    def back(self, epoch: int, num_done: int, rows_taken: int) -> HandedBack | None:
        """See `PieceSource`."""
        with self._lock:
            known = self._readings.get(epoch)
            again = self._num_begun.get(epoch, 0) if known is None else known.round
        return HandedBack(queue=self._name, epoch=epoch, round=again, num_done=num_done, rows_taken=rows_taken)

    def _begun(self, epoch: int, reading: _Reading, taken: int) -> list[int]:
        reply = self._ask(epoch, reading, 0, Extent(0, 0) if taken else reading.extent)
        reading.breaks = list(reply.breaks)
        return list(reply.pieces)

    def _next(self, epoch: int, reading: _Reading) -> int | None:
        reply = self._ask(epoch, reading, len(reading.own) + 1)
        return reply.pieces[0] if reply.pieces else None

    def _ask(
        self,
        epoch: int,
        reading: _Reading,
        number: int,
        extent: Extent = Extent(0, 0),  # noqa: B008
        *,
        is_idle: bool = False,
    ) -> ps_pb2.TakeReply.Header:
        client = self._client()

        def header() -> ps_pb2.TakeRequest.Header:
            return ps_pb2.TakeRequest.Header(
                caller=client.caller(0),
                queue=self._name,
                epoch=epoch,
                round=reading.round,
                number=number,
                first=extent.first,
                total=extent.total,
                extra=extent.extra,
                is_idle=is_idle,
            )

        try:
            reply, _ = client.ask_first("Take", header, rpc_timeout_s(), rpc_timeout_s())
        except CommunicationError as error:
            error.args = (f"worker {client.worker} asked for a piece of epoch {epoch}: {error}",)
            raise
        assert isinstance(reply, ps_pb2.TakeReply.Header)
        reading.rows_taken |= dict(zip(reply.pieces, reply.rows_taken, strict=False))
        return reply


class StorePieces(PieceSource):
    """From a counter in the store of a collective job, whose workers begin and end together.

    A worker that is lost ends the job, which goes on from a checkpoint: no take is ever repeated. The counter of an
    epoch stays in the store as long as the job.
    """

    def __init__(self, store: dist.Store, name: str) -> None:
        super().__init__()
        self._store = store
        self._name = name

    def _begun(self, epoch: int, reading: _Reading, taken: int) -> list[int]:  # noqa: ARG002
        if taken:
            raise NotSupportedError("a worker of a collective job is not started again alone; load a checkpoint")
        return []

    def _next(self, epoch: int, reading: _Reading) -> int | None:
        key = f"fleet-queue/{self._name}/{epoch}/{reading.round}"
        try:
            place = self._store.add(key, 1) - 1
        except RuntimeError as error:  # torch's, whose first line says what happened
            first = str(error).splitlines()[0]
            raise CommunicationError(f"no piece of epoch {epoch} from the job's store: {first}") from error
        return reading.extent.piece(place) if place < len(reading.extent) else None
