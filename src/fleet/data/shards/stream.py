"""A worker's own stream of batches, of whatever length: the workers agree, batch by batch, on when the epoch ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fleet.data.shards.base import Shard, Uneven
from fleet.data.shards.workers import Workers, name_workers
from fleet.errors import CommunicationError, UsageError, UsageTypeError

_END: Any = object()
_OUT, _HAS, _EMPTY, _FAILED = range(4)
"""What a worker tells the others: it has run out, has another batch, never had one, or could not read it."""


class StreamShard(Shard):
    """With "drop" the epoch ends with the first stream, with "pad" with the last, with "join" each by itself.

    For the first two, workers tell each other before each batch whether they have one. They read one batch ahead for
    that, and in a collective job the answers travel while the batch before is trained. The position is the number of
    batches handed out, the same on all workers; when a state is loaded they are read again and thrown away.
    """

    _kind, _unit = "batches", "batches_taken"
    _same_again = "own streams go on with the workers they were made for; use as many, or let fleet divide the samples"

    def __init__(self, data: Any, workers: Workers, *, uneven: Uneven) -> None:
        super().__init__(workers, uneven)
        self._data = data
        self._is_once = isinstance(data, Iterator)
        self._was_read = False
        if self._is_once and uneven == "pad":
            raise UsageError(
                f"uneven='pad' reads again from the first batch, but data is a {type(data).__name__} that can be read "
                "once; give the function that makes it (batches, not batches()), or use 'drop' or 'join'"
            )
        workers.compare(
            {"kind of data": self._kind, "uneven": uneven, **self._agreed()},
            "give all of them the same kind of data and settings",
        )
        self._forget()

    def __len__(self) -> int:
        raise UsageTypeError("a stream of batches has no length; count the batches, or give samples that fleet divides")

    def _agreed(self) -> dict[str, Any]:
        """What else must be the same on all workers."""
        return {}

    def _forget(self) -> None:
        self._iterator: Iterator[Any] | None = None
        self._is_begun = False
        self._is_out = False
        self._is_empty = True
        self._num_asked = self._count
        """Batches that workers were asked about: one more than those handed out, but for the last."""
        self._ahead: Any = _END
        self._answer: Callable[[], list[int]] | None = None
        self._failure: Exception | None = None
        """What went wrong when the batch after the next was read; raised once the others have been told."""

    def _go_to(self, epoch: int, count: int) -> None:
        super()._go_to(epoch, count)
        self._forget()

    def _batches(self) -> Iterator[Any]:
        if self._workers.num == 1 or self._uneven == "join":
            while (batch := self._next()) is not _END:
                self._count += 1
                yield batch
            return
        while self._goes_on():
            batch = self._kept(self._again) if self._ahead is _END else self._ahead
            self._look_ahead()
            if batch is not _END:
                self._count += 1
                yield batch

    def _next(self) -> Any:
        """The next batch, or the end; the stream may have been given up for a while, to be read for an evaluation."""
        if not self._is_begun:
            self._begin()
        return self._own()

    def _kept(self, read: Callable[[], Any]) -> Any:
        """What `read` gives; an error is kept for later, for the others wait to be told something."""
        try:
            return read()
        except Exception as error:
            self._failure = error
            return _END

    def _begin(self) -> None:
        """Open the stream and pass over the batches that were taken before."""
        if self._is_once and self._was_read:
            raise UsageError(
                f"data is a {type(self._data).__name__} that can be read once, and was; for another epoch, or to go "
                "back, give the function that makes it (batches, not batches())"
            )
        self._is_begun = self._was_read = True
        set_epoch(self._data, self._epoch)
        self._iterator = self._open()
        for number in range(self._count):
            if self._own() is not _END:
                continue
            if self._uneven != "pad":
                self._refuse_short(number)
                break
            self._again()

    def _refuse_short(self, number: int) -> None:
        """UsageError if a stream lacks batches that a former life of this worker has trained on."""
        if self._workers.progress is not None and self._workers.progress.has_resumed:
            raise UsageError(
                f"a stream gave {number} batches when this worker, which was started again, read it, and had given "
                f"{self._count} that were trained on: it cannot go on where it was. Give a stream that reads the same "
                "again, or samples that fleet divides"
            )

    def _open(self) -> Iterator[Any]:
        made = self._data if isinstance(self._data, Iterable) else self._data()
        if not isinstance(made, Iterable):
            raise UsageTypeError(f"the function given as data must return an iterable, got a {type(made).__name__}")
        return iter(made)

    def _own(self) -> Any:
        """The next batch of the stream's first reading, or the end."""
        if self._is_out or self._iterator is None:
            return _END
        batch = next(self._iterator, _END)
        if batch is _END:
            self._is_out, self._iterator = True, None
        else:
            self._is_empty = False
        return batch

    def _again(self) -> Any:
        """The next batch of a stream that has run out and is read again."""
        batch = _END if self._iterator is None else next(self._iterator, _END)
        if batch is _END:
            self._iterator = self._open()
            batch = next(self._iterator, _END)
        if batch is _END:
            raise UsageError(
                "data gave batches when it was first read and none when it was read again, which uneven='pad' needs; "
                "give an iterable that begins anew, or the function that makes it"
            )
        return batch

    def _look_ahead(self) -> None:
        """Read the batch after the next and tell the others whether there is one."""
        if self._failure is None:
            self._ahead = self._kept(self._own)
        state = _EMPTY if self._is_empty else _OUT
        if self._failure is not None:
            state = _FAILED
        elif self._ahead is not _END:
            state = _HAS
        self._num_asked += 1
        self._answer = self._workers.ask(state, f"batch/{self._number}/{self._epoch}/{self._num_asked}")

    def _goes_on(self) -> bool:
        """Wait for what the others told, and decide as they do."""
        if not self._is_begun:
            self._kept(self._begin)
        if self._answer is None:
            self._look_ahead()
        assert self._answer is not None
        states, self._answer = self._answer(), None
        if self._failure is not None:
            raise self._failure
        if failed := [worker for worker, state in enumerate(states) if state == _FAILED]:
            raise CommunicationError(f"{name_workers(failed)} could not read the next batch; the error stands there")
        if empty := [worker for worker, state in enumerate(states) if state == _EMPTY]:
            raise UsageError(
                f"uneven={self._uneven!r} needs a batch from everybody, but {name_workers(empty)} had none at all; "
                "give it data, or use uneven='join'"
            )
        return (all if self._uneven == "drop" else any)(state == _HAS for state in states)

    def _needs_join(self) -> bool:
        return self._workers.num > 1 and self._uneven == "join"

    def _settings(self) -> dict[str, Any]:
        return {"num_workers": self._workers.num}


def set_epoch(data: Any, epoch: int) -> None:
    """Tell a data loader, its dataset and its samplers which epoch begins, if they want to know."""
    for part in (data, *(getattr(data, name, None) for name in ("dataset", "sampler", "batch_sampler"))):
        if callable(tell := getattr(part, "set_epoch", None)):
            tell(epoch)
