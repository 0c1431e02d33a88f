"""What a server holds as parts of records: for snapshots, and for the servers of another layout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fleet.ps.held.holdings import Holdings
from fleet.ps.held.requests import read_kept
from fleet.ps.journal.records import RecordPart

if TYPE_CHECKING:
    from fleet.ps.steps.state import ServerState

ShardFiles = tuple[int, int, list[str]]
"""A shard of a table with rows on a disk: how many keys its files have, and their names, the newest first."""


def adopt(state: ServerState, parts: Sequence[RecordPart]) -> None:
    """Take over what the servers of the layout before knew; the rows that they had written before are there."""
    holdings, head = state.held, json.loads(parts[0].header)
    state.adopt(head["state"])
    if head["is_started"]:
        restore_dense(holdings, RecordPart(parts[0].header, parts[1].tensors))
    if head["is_spoiled"]:
        for table in holdings.tables:
            table.clear()
    for part in parts[2:]:
        index, _, rows = exported(part)
        holdings.tables[index].import_(rows, holdings.server, holdings.job.num_servers)


def state_part(state: ServerState) -> RecordPart:
    """The part of a snapshot with all that is small: everything but values and rows."""
    return RecordPart(json.dumps(state.to_json()).encode())


def dense_part(holdings: Holdings) -> RecordPart:
    """The dense parameters with the state of their rules, and the kept tensors."""
    buffers = [array for both in holdings.snapshot() for array in both]
    return RecordPart(json.dumps({"is_started": holdings.is_started}).encode(), [*buffers, *holdings.kept])


def rows_part(
    table: int, shards: tuple[int, int], rows: dict[str, Any], files: Sequence[ShardFiles] = ()
) -> RecordPart:
    """The rows of some shards of a table; `files` that hold more of them lie beside the snapshot."""
    columns = [(name, array.dtype.str, array.shape) for name, array in rows.items()]
    header = {"table": table, "shards": shards, "columns": columns, **({"files": files} if files else {})}
    return RecordPart(json.dumps(header).encode(), [np.ascontiguousarray(array) for array in rows.values()])


def restore_dense(holdings: Holdings, part: RecordPart) -> None:
    """Take over what `dense_part` has made."""
    if not json.loads(part.header)["is_started"]:
        return
    num_buffers = 2 * len(holdings.groups)
    arrays = [_array(tensor, np.dtype(np.float32)) for tensor in part.tensors[:num_buffers]]
    kept = read_kept(part.tensors[num_buffers:], holdings.job, holdings.server, "kept")
    holdings.restore(list(zip(arrays[::2], arrays[1::2], strict=True)), kept)


def exported(part: RecordPart) -> tuple[int, tuple[int, int], dict[str, Any]]:
    """The table, its shards and their rows, as given to `rows_part`."""
    header = json.loads(part.header)
    rows = {
        name: _array(tensor, np.dtype(kind)).reshape(shape)
        for (name, kind, shape), tensor in zip(header["columns"], part.tensors, strict=True)
    }
    begin, end = header["shards"]
    return int(header["table"]), (begin, end), rows


def _array(tensor: Any, kind: np.dtype[Any]) -> Any:
    return tensor.reshape(-1) if isinstance(tensor, np.ndarray) else np.frombuffer(tensor, kind)
