"""Notes of a program: facts that passes leave for whoever runs it, as JSON values under these names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

AVERAGE_NOTE = "not_averaged"
"""The parameters that an average of all leaves out."""

CLIP_NOTE = "gradient_clip"
"""What `set_gradient_clip` leaves: parameter to the record of its clip, until `minimize`."""

COLLECTIVE_NOTE = "collective"
"""The trainers of a job without servers, and which of them this one is."""

ENTRIES_NOTE = "entries"
"""The entry policy of each table that was given one, by name, as JSON."""

INFERENCE_NOTE = "inference"
"""The feeds and targets of an inference model."""

MEMORY_NOTE = "memory_optimize"
"""That values are let go where they are used last, and which are not."""

SERVERS_NOTE = "servers"
"""That parameters are on servers: who holds what."""

TRAFFIC_NOTE = "traffic"
"""How a trainer sends to its servers."""

OF_EVALUATION = (SERVERS_NOTE, TRAFFIC_NOTE, MEMORY_NOTE)
"""What evaluation needs as well: where the rows of lookups are, and when values are let go."""


def leave_out_of_average(notes: dict[str, Any], *parameters: str) -> None:
    """Note that an average of all parameters leaves these as they are."""
    notes[AVERAGE_NOTE] = sorted({*notes.get(AVERAGE_NOTE, ()), *parameters})


def trainers_of(notes: Mapping[str, Any]) -> tuple[int, int]:
    """How many trainers a program with these notes was transpiled for, and which of them it is for."""
    note = notes.get(COLLECTIVE_NOTE)
    return (1, 0) if note is None else (len(note["endpoints"]), note["trainer_id"])
