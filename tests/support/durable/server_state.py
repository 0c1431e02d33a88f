"""What a server knows, as plain values that can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fleet.ps.journal.files import segments_in
from fleet.ps.journal.records import Kind, read
from fleet.ps.server.service import Service
from fleet.ps.steps.state import ServerState


def everything(service: Service | ServerState) -> dict[str, Any]:
    """All that a server would lose."""
    state = service.state if isinstance(service, Service) else service
    holdings = state.held
    tables = []
    for table in holdings.tables:
        found = table.export(0, table.num_shards)
        rows: dict[Any, Any] = {}
        for prefix in ("", "waiting_"):
            keys = found[f"{prefix}keys"]
            names = [name for name in found if name.startswith("waiting_") == bool(prefix)]
            rows |= {
                (prefix, int(key)): {name: found[name][i].tobytes() for name in names} for i, key in enumerate(keys)
            }
        tables.append(rows)
    small = state.to_json()
    del small["ages"]  # when a step was made again says the clock of the wall
    small["stats"] = {
        name: count for name, count in small["stats"].items() if "pull" not in name and "stale" not in name
    }
    dense = [array.tobytes() for pair in holdings.snapshot() for array in pair]
    return {"tables": tables, "dense": dense, "kept": [one.tobytes() for one in holdings.kept], **small}


def kinds_of(folder: Path, after: int) -> set[Kind]:
    """The kinds of the records of a journal behind one."""
    found = set()
    for _, path in segments_in(folder):
        found |= {record.kind for record in read(path, memoryview(path.read_bytes())) if record.lsn > after}
    return found - {Kind.SEGMENT}
