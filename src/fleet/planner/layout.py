"""How many workers and servers the machines get, where the rows lie, and what each of them then holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from fleet.planner.facts import Machines, Workload
from fleet.planner.memory import (
    FINDING_PART,
    HOST_PART,
    SERVER_PART,
    TrainingSetup,
    WorkerMemory,
    measure_tables,
    process_bytes,
    usable_gpu,
    worker_memory,
)

CORES_OF_PAIR = 4
"""A worker and the server beside it have so many cores: 4 + 4 did best of what was measured on 16."""
MOST_WORKERS = 8
"""The most workers of one machine without as many GPUs: more were not measured."""
SERVER_BYTES = 300 << 20
"""A server's process before it has anything."""


@dataclass(frozen=True)
class Layout:
    """A job with tables on some machines."""

    workers_of_host: int
    servers_of_host: int
    """0: the tables are in the one worker's process."""
    worker: WorkerMemory
    device_limit: int
    """What one worker may use of its device."""
    tables_of_host: int
    """If all rows are in memory."""
    room_of_host: int
    """What is left for rows beside everything else."""
    memory: Mapping[str, int]
    """`memory=` of each table, where rows must lie on disks; empty: all fit."""
    finds: bool
    """Whether the rows on the disks can be found with the memory there is, and may lie there."""

    @property
    def fits(self) -> bool:
        """Whether everything has a place."""
        return self.room_of_host > 0 and self.finds and self.worker.total <= self.device_limit


def lay_out(workload: Workload, machines: Machines, rows: Mapping[str, int]) -> Layout:
    """Divide the machines among workers and servers, and the tables between memory and disks."""
    workers = max(machines.num_gpus, min(machines.num_cores // CORES_OF_PAIR, MOST_WORKERS), 1)
    if workload.cached:  # one worker, its tables in its process
        machines, workers = replace(machines, num_hosts=1, num_gpus=min(machines.num_gpus, 1)), 1
    is_alone = machines.num_hosts == 1 and workers == 1
    servers = 0 if is_alone else workers
    one = worker_memory(workload, TrainingSetup(num_workers=workers * machines.num_hosts))
    each = process_bytes(workload) + (0 if machines.num_gpus else one.total)
    dense_of_host = ceil(workload.dense.server_bytes / machines.num_hosts)
    others = workers * each + servers * SERVER_BYTES + dense_of_host
    room = min(int(HOST_PART * machines.host_memory) - others, int(SERVER_PART * machines.host_memory) - dense_of_host)
    tables = measure_tables(workload, rows)
    num_servers = max(1, servers) * machines.num_hosts
    bounded = {
        table.name: min(tables.memory_bytes[table.name], (table.memory or table.max_bytes) * num_servers)
        if table.memory or table.max_bytes
        else tables.memory_bytes[table.name]
        for table in workload.tables
    }
    total = sum(bounded.values())
    of_host = ceil(total / machines.num_hosts)
    memory: dict[str, int] = {}
    if of_host > room > 0:
        share = room / max(1, servers)
        memory = {name: max(1 << 20, int(share * size / total)) for name, size in bounded.items()}
    finding = tables.finding_bytes / machines.num_hosts
    limit = usable_gpu(machines.gpu_memory) if machines.num_gpus else machines.host_memory
    if machines.num_gpus:
        limit //= max(1, ceil(workers / machines.num_gpus))
    return Layout(
        workers,
        servers,
        one,
        limit,
        of_host,
        room,
        memory,
        finds=not memory or (finding <= FINDING_PART * room and not workload.cached),
    )
