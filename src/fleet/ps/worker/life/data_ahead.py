"""Where the data of a worker is, while `fleet.prefetch` reads it ahead of what is trained on."""

from typing import Any


class LeftBatch:
    """The batch that a loop had read ahead when it was left: the next loop over the same data begins with it."""

    def __init__(self, loader: object, batch: Any, data: Any) -> None:
        self._loader, self.batch, self._data = loader, batch, data
        self._state = None if data is None else data.state_dict()

    def is_next(self) -> bool:
        """Whether nobody has moved the data since."""
        return self._data is not None and self._data.state_dict() == self._state

    def goes_on(self, loader: object) -> bool:
        """Whether a loop over this loader begins with the batch."""
        return self._loader is loader and self._data is loader and self.is_next()


class DataAhead:
    """What `fleet.prefetch` tells a `fleet.Checkpoint`, which must not skip a batch that was read and not used."""

    def __init__(self) -> None:
        self._saved: Any = None
        self._behind: tuple[object, Any] | None = None
        self._left: LeftBatch | None = None

    @property
    def saved(self) -> Any:
        """The data whose position a `fleet.Checkpoint` saves, whatever is wrapped around it."""
        return self._saved

    @property
    def behind(self) -> tuple[object, Any] | None:
        """Data that is read a batch ahead, and its state before that batch: where training is. None: nothing is."""
        return self._behind if self._left is None or self._left.is_next() else None

    def save(self, data: Any) -> None:
        """Note that a `fleet.Checkpoint` saves the position of this data from now on."""
        self._saved = data

    def begin(self, loader: object) -> LeftBatch | None:
        """Begin a loop; returns what an earlier one has left for it."""
        left, self._left, self._behind = self._left, None, None
        return left if left is not None and left.goes_on(loader) else None

    def read(self, behind: tuple[object, Any] | None) -> None:
        """Note that a batch was read ahead, and where data was before it; None: no batch is ahead any more."""
        self._behind = behind

    def leave(self, loader: object, batch: Any) -> None:
        """Keep the batch that a loop has read ahead when it is left early."""
        if self._behind is not None:
            self._left = LeftBatch(loader, batch, self._behind[0])
