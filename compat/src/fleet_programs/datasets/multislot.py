"""Files of MultiSlot text to records, a few megabytes at a time (the parser is csrc/data/multislot.h)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleet import _native
from fleet.data.columns.records import Column, DataSlot, Records
from fleet.errors import UsageError
from fleet_programs.datasets.piped import Stop, opened

CHUNK_BYTES = 4 << 20
LONGEST_LINE_BYTES = 1 << 30


@dataclass(frozen=True)
class Format:
    """How a file becomes records: through which command, with which slots, and what stands in front of them."""

    slots: tuple[DataSlot, ...]
    command: str = "cat"
    has_id: bool = False
    has_content: bool = False
    timeout_s: float = 1800.0
    """How long a command may write nothing."""

    def read(self, path: str, stop: Stop) -> Iterator[Records]:
        """The records of a file, in order. Bad text is an error with the line of what the command wrote."""
        declared = [slot.declared for slot in self.slots]
        with opened(path, self.command, stop, self.timeout_s) as text:
            memory = np.empty(CHUNK_BYTES, dtype=np.uint8)
            filled, line, is_last = 0, 1, False
            while not is_last:
                while filled < len(memory) and not is_last:
                    count = text.read_into(memory.data[filled:])
                    filled, is_last = filled + count, count == 0
                consumed, num_lines, num, ids, columns, problem = _native.parse_multislot(
                    memory[:filled], is_last, declared, self.has_id, self.has_content
                )
                if problem is not None:
                    wrong, what, remedy = problem
                    raise UsageError(f"{what} in {path}:{line + wrong}; {remedy}")
                if num > 0:
                    yield Records(self.slots, [Column(*column) for column in columns], num, ids)
                line += num_lines
                if consumed == 0 and not is_last:
                    memory = _larger(memory, f"{path}:{line}")
                else:
                    filled -= consumed
                    memory[:filled] = memory[consumed : consumed + filled]


def none_of(slots: tuple[DataSlot, ...], has_ids: bool) -> Records:
    """Zero records of these slots."""
    text = np.empty(0, dtype=np.uint8)
    *_, ids, columns, _ = _native.parse_multislot(text, True, [slot.declared for slot in slots], has_ids)
    return Records(slots, [Column(*column) for column in columns], 0, ids)


def _larger(memory: npt.NDArray[np.uint8], where: str) -> npt.NDArray[np.uint8]:
    """Room for a line that has not ended yet."""
    if len(memory) >= LONGEST_LINE_BYTES:
        raise UsageError(f"the line is longer than {LONGEST_LINE_BYTES} bytes in {where}; write one record a line")
    return np.concatenate([memory, np.empty_like(memory)])
