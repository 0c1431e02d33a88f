"""A model with tables: servers beside the workers, or the tables in one process where that is the whole job."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from fleet.strategy.sizes import in_units
from fleet_tools.planner.exchange import compute_s, served_s
from fleet_tools.planner.facts import Machines, Question, Workload
from fleet_tools.planner.memory import (
    BATCHES_ASSUMED,
    FINDING_PART,
    HOST_PART,
    SERVER_PART,
    Tables,
    TrainingSetup,
    WorkerMemory,
    measure_tables,
    process_bytes,
    usable_gpu,
    worker_memory,
    worker_parts,
)
from fleet_tools.planner.plan import Choice, MemoryPart, Times

GEO_FACTOR = 10
"""Where an exchange takes so many times as long as a step's own work, a message per batch is too many."""

GEO_STEPS = 100

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


def choose(workload: Workload, question: Question) -> Choice:
    """Workers and servers by the cores and GPUs, rows in memory or on disks by what fits, the mode by the network."""
    machines = question.machines
    if workload.cached:  # all others stand idle
        machines = replace(machines, num_hosts=1, num_gpus=min(machines.num_gpus, 1))
    tables = measure_tables(workload, question.rows)
    layout = lay_out(workload, machines, question.rows)
    num_workers, num_servers = (
        count * machines.num_hosts for count in (layout.workers_of_host, layout.servers_of_host)
    )
    own = compute_s(workload, machines, layout.workers_of_host)
    exchange = served_s(workload, machines, num_workers, num_servers) if num_servers else 0.0
    mode, why = _mode(workload, own, exchange, num_servers, has_disk=bool(layout.memory))
    counted = _cache_reasons(workload, question.machines) or [_count_reason(machines, layout)]
    reasons = [*counted, *why, *_room_reasons(workload, machines, layout, tables)]
    return Choice(
        mode=f"servers, {mode}" if num_servers else "one process",
        num_workers=num_workers,
        num_servers=num_servers,
        fits=layout.fits and _has_disk(machines, layout, tables),
        parts=tuple(_parts(workload, machines, layout, tables)),
        times=_times(workload, own, exchange, num_workers, mode),
        reasons=tuple(reasons),
        command=_command(question, layout),
        code=tuple(_code(workload, mode, layout, is_chosen=workload.mode in ("off", mode))),
        assumed=tuple(_assumed(workload, tables)),
    )


def _mode(
    workload: Workload, own: float | None, exchange: float, num_servers: int, *, has_disk: bool
) -> tuple[str, list[str]]:
    if not num_servers:
        return "sync", []
    if workload.mode != "off":
        return workload.mode, [f"the script has chosen {workload.mode}"]
    if own is None or exchange <= own:
        beside = "" if own is None else f": pull and push take {_ms(exchange)}, a step's own work {_ms(own)}"
        return "sync", [f"sync is exact, and the network allows it{beside}"]
    if exchange > GEO_FACTOR * own and not has_disk:
        return "geo", [
            f"geo: pull and push take {_ms(exchange)} and a step's own work {_ms(own)}, so workers train on copies and "
            f"exchange every {GEO_STEPS} steps"
        ]
    return "async", [
        f"async: pull and push take {_ms(exchange)}, more than a step's own work, {_ms(own)}; nobody waits for them"
    ]


def _count_reason(machines: Machines, layout: Layout) -> str:
    if not layout.servers_of_host:
        return (
            f"{machines.num_cores} core(s) on one machine: a server would share them with the worker, so the tables "
            "are in its process"
        )
    each = "" if machines.num_hosts == 1 else f" on each of {machines.num_hosts} machines"
    gpus = f" and {machines.num_gpus} GPU(s)" if machines.num_gpus else ""
    return (
        f"{machines.num_cores} cores{gpus}: {layout.workers_of_host} worker(s) and {layout.servers_of_host} server(s)"
        f"{each}"
    )


def _cache_reasons(workload: Workload, machines: Machines) -> list[str]:
    """What a cache of hot rows means for the machines; empty if there is none."""
    if not workload.cached:
        return []
    name = workload.cached[0].name
    found = [
        f"cache='gpu' of table {name}: one worker trains the hot rows where the model is, the tables are beside it"
    ]
    if machines.num_hosts > 1 or machines.num_gpus > 1:
        idle = "GPU" if machines.num_gpus else "machine"
        found.append(f"which leaves all but one {idle} idle; leave the cache out to use them")
    if not machines.num_gpus:
        found.append("without a GPU the cache is in host memory beside the table, and saves nothing; leave it out")
    return found


def _room_reasons(workload: Workload, machines: Machines, layout: Layout, tables: Tables) -> list[str]:
    """Where the rows lie, and what does not fit."""
    found = []
    room, needed = in_units(max(0, layout.room_of_host)), in_units(layout.tables_of_host)
    if layout.room_of_host <= 0:
        found.append("it does not fit: workers alone take more host memory than a machine has; take fewer or larger")
    elif not layout.memory:
        found.append(f"rows are in host memory: {needed} on a machine, which has {room} for them")
    elif workload.cached:
        found.append(
            f"it does not fit: rows take {needed} on a machine, which has {room} for them, and rows on disks do not go "
            "with cache='gpu'; take a larger machine, or leave the cache out"
        )
    elif layout.finds:
        found.append(f"rows are on disks, the hot ones in memory: {needed} on a machine, which has {room} for them")
        if not _has_disk(machines, layout, tables):
            free = in_units(machines.disk or 0)
            needs = in_units(tables.disk_bytes / machines.num_hosts)
            found.append(f"it does not fit: the rows take up to {needs} of a machine's disk, which has {free}")
    else:
        least = ceil(tables.finding_bytes / (FINDING_PART * layout.room_of_host))
        found.append(
            f"it does not fit: finding the rows on disks takes {in_units(tables.finding_bytes)} of memory; take "
            f"{least} such machines"
        )
    if layout.worker.total > layout.device_limit:
        found.append(
            f"a worker needs {in_units(layout.worker.total)} on its device and may use "
            f"{in_units(layout.device_limit)}; take a smaller {'cache' if workload.cached else 'batch'}"
        )
    if machines.num_gpus and not tables.assumed:
        whole = 2 * sum(tables.rows[one.name] * one.value_bytes for one in workload.tables)
        whole += sum(tables.rows[one.name] * one.state_bytes for one in workload.tables)
        if whole + layout.worker.total <= usable_gpu(machines.gpu_memory):
            found.append(
                f"with a fixed vocabulary, torch.nn.Embedding would take {in_units(whole)} of each GPU and need no "
                "servers: ids from 0, all rows on every GPU, gradients of all rows"
            )
    return found


def _has_disk(machines: Machines, layout: Layout, tables: Tables) -> bool:
    return not layout.memory or machines.disk is None or tables.disk_bytes / machines.num_hosts <= machines.disk


def _parts(workload: Workload, machines: Machines, layout: Layout, tables: Tables) -> list[MemoryPart]:
    device = "GPU memory" if machines.num_gpus else "host memory"
    who = "servers" if layout.servers_of_host else "the process"
    parts = worker_parts(workload, layout.worker, device)
    if workload.dense.server_bytes:
        parts.append(MemoryPart("dense, with state", f"host memory, {who}", workload.dense.server_bytes))
    for table in workload.tables:
        number = f"{tables.rows[table.name]:,} rows{', assumed' if table.name in tables.assumed else ''}"
        on_disk = f", hot ones in {in_units(layout.memory[table.name])} of each server" if layout.memory else ""
        where = f"{'disks' if layout.memory else 'host memory'}, {who}"
        parts.append(MemoryPart(f"table {table.name}", where, tables.memory_bytes[table.name], None, number + on_disk))
    if workload.tables:
        seen = workload.measured.table_bytes
        parts.append(
            MemoryPart(
                "tables in all",
                f"{'disks' if layout.memory else 'host memory'}, {who}",
                tables.total,
                seen or None,
                "measured: after one batch" if seen else "",
            )
        )
    return parts


def _times(workload: Workload, own: float | None, exchange: float, num_workers: int, mode: str) -> Times:
    """A synchronous step waits for its rows and its push; others exchange while they compute."""
    if own is None:
        return Times(None, exchange, None, None)
    spread = exchange / GEO_STEPS if mode == "geo" else exchange
    step = own + exchange if mode in ("sync", "half_async") else max(own, spread)
    return Times(own, exchange, step, num_workers * workload.batch_size / step if step else None)


def _command(question: Question, layout: Layout) -> str:
    machines, script = question.machines, shlex.join(question.script)
    device = " --device cuda" if machines.num_gpus else ""
    if not layout.servers_of_host:
        return f"python {script}"
    if machines.num_hosts == 1:
        return f"fleetrun --server_num {layout.servers_of_host} --worker_num {layout.workers_of_host}{device} {script}"
    here = f"--server_num {layout.servers_of_host} --worker_num {layout.workers_of_host}{device}"
    return f"fleetrun --master HOST_1:6000 --nnodes {machines.num_hosts} {here} {script}"


def _code(workload: Workload, mode: str, layout: Layout, *, is_chosen: bool) -> list[str]:
    lines = []
    if layout.servers_of_host and mode in ("async", "geo") and is_chosen and workload.mode == "off":
        lines += ["strategy = fleet.DistributedStrategy()", "strategy.a_sync = True"]
        lines += [f"strategy.a_sync_configs.k_steps = {GEO_STEPS}"] if mode == "geo" else []
        lines.append("fleet.init(strategy=strategy)")
    for table in workload.tables:
        if table.name in layout.memory and not table.memory:
            size = max(1, layout.memory[table.name] >> 20)
            lines.append(f'fleet.nn.Embedding({table.width}, ..., memory="{size}MiB")  # table {table.name!r}')
    if layout.memory:
        lines.append("# and FLEET_TABLE_DIR=/a/local/disk before fleetrun")
    return lines


def _assumed(workload: Workload, tables: Tables) -> list[str]:
    seen = {table.name: table.num_distinct for table in workload.tables}
    return [
        f"table {name}: {tables.rows[name]:,} rows, as {BATCHES_ASSUMED:,} batches of {seen[name]:,} new ids would make"
        f"; say how many there will be: --rows {name}=N"
        for name in tables.assumed
    ]


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.3g} ms"
