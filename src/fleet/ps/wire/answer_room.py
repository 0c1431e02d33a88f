"""How much room a call sets aside in its memory for the answer: as much as recent answers needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.ps.wire.messages import Tensors

SPARE_BYTES = 4096
_BYTES_A_TENSOR = 32


class AnswerRoom:
    """The room for answers to one kind of call; it grows at once, and shrinks slowly."""

    def __init__(self) -> None:
        self._recent_bytes = 0

    @property
    def size_bytes(self) -> int:
        """What the next call asks for."""
        return self._recent_bytes + SPARE_BYTES

    def note(self, tensors: Tensors) -> None:
        """Note how large an answer was: the next call asks for as much."""
        size = sum(len(one) if isinstance(one, bytes) else one.nbytes for one in tensors)
        size += _BYTES_A_TENSOR * len(tensors)
        self._recent_bytes = max(size + size // 8, self._recent_bytes - self._recent_bytes // 64)
