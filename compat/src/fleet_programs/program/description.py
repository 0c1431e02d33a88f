"""A program under the calls of PaddlePaddle's native one: `program.desc`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet_programs.program.program import Program


class ProgramDescription:
    """The same program, whose form and blocks are asked for by calls."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def serialize_to_string(self) -> bytes:
        """All of it, as bytes that `Program.parse_from_string` reads."""
        return self._program.to_json().encode()

    def num_blocks(self) -> int:
        """How many blocks it has."""
        return len(self._program.blocks)
