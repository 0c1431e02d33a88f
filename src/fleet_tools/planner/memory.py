"""The arithmetic of memory: what a worker, a server and a table take. docs/plan.md has the same formulas in words.

Each optimizer of torch keeps, by formula, a number of tensors of a parameter's own size and type, and most of them a
counter of steps, a float32.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from fleet_tools.planner.facts import TableFacts, Workload
from fleet_tools.planner.plan import MemoryPart

Options = Mapping[str, Any]
COUNTER_BYTES = 4
_FORMULAS: dict[str, Callable[[Options], tuple[int, int]]] = {
    "SGD": lambda options: (int(bool(options.get("momentum"))), 0),
    "Adam": lambda options: (2 + bool(options.get("amsgrad")), 1),
    "AdamW": lambda options: (2 + bool(options.get("amsgrad")), 1),
    "NAdam": lambda _: (2, 2),
    "RAdam": lambda _: (2, 1),
    "Adamax": lambda _: (2, 1),
    "Adagrad": lambda _: (1, 1),
    "Adadelta": lambda _: (2, 1),
    "RMSprop": lambda options: (1 + bool(options.get("centered")) + bool(options.get("momentum")), 1),
}
"""Optimizer -> (tensors like the parameter, counters) of each parameter, from the options of its group."""
INDEX_BYTES = 25
"""What a row takes in memory beside its values and state: key, index, counters."""
COLD_BYTES, COLD_DISK_BYTES, DISK_SLACK = 1.7, 16, 1.5
"""What a row on the disk takes: memory to find it, disk beside its values, and a factor for what is out of date."""
FINDING_PART = 0.25
"""The part of `memory=` that may be used to find rows on the disk."""
HOST_PART, SERVER_PART = 0.9, 0.8
"""The parts of a machine's memory that a job may use, and that its servers use by default."""
GPU_PART, CUDA_BYTES = 0.9, 512 << 20
"""The part of a GPU's memory that fragments leave usable, and the bytes that CUDA and its libraries take of it."""
SEGMENT_BYTES = 2 * (32 << 20)
"""What sharding stage 3 keeps gathered: the segment in use and the one on its way."""
CACHE_MARKS_BYTES, CACHE_INDEX_BYTES, CACHE_WAYS = 12, 20, 32
"""What a cached row takes beside its values and state: marks and index; rows come in sets of so many."""
BATCHES_AT_ONCE = 3
"""Whose rows a cache has to hold: the one that is trained, the one ahead, and one that is just over."""
BATCHES_ASSUMED = 1000
"""A table of unknown size is taken to have the rows that so many batches of new ids would make."""


@dataclass(frozen=True)
class Tables:
    """All tables of a job, over all servers."""

    rows: dict[str, int]
    assumed: tuple[str, ...]
    """The tables whose number of rows nobody has said."""
    memory_bytes: dict[str, int]
    """If all rows are in memory."""
    disk_bytes: int
    """If all lie on disks."""
    finding_bytes: int
    """Memory to find them there."""

    @property
    def total(self) -> int:
        """The bytes of all tables in memory."""
        return sum(self.memory_bytes.values())


def row_bytes(table: TableFacts) -> int:
    """The bytes of one row in memory."""
    return table.value_bytes + table.state_bytes + INDEX_BYTES


def cache_row_bytes(table: TableFacts) -> int:
    """The bytes of one row in a cache of hot rows."""
    return table.value_bytes + table.state_bytes + CACHE_MARKS_BYTES + CACHE_INDEX_BYTES


def cache_bytes(table: TableFacts) -> int:
    """The bytes of a table's cache of hot rows: whole sets, twice as many while batches under way need more."""
    if not table.cache_rows:
        return 0
    rows = ceil(table.cache_rows / CACHE_WAYS) * CACHE_WAYS
    while rows < BATCHES_AT_ONCE * table.num_distinct:
        rows *= 2
    return rows * cache_row_bytes(table)


def measure_tables(workload: Workload, rows: Mapping[str, int]) -> Tables:
    """What the tables will take; rows that nobody has said are assumed."""
    known: dict[str, int] = {}
    assumed = []
    for table in workload.tables:
        if table.name in rows:
            known[table.name] = rows[table.name]
        elif table.max_rows:
            known[table.name] = table.max_rows
        else:
            known[table.name] = BATCHES_ASSUMED * max(1, table.num_distinct)
            assumed.append(table.name)
    return Tables(
        rows=known,
        assumed=tuple(assumed),
        memory_bytes={one.name: known[one.name] * row_bytes(one) for one in workload.tables},
        disk_bytes=sum(
            int(DISK_SLACK * known[one.name] * (one.value_bytes + one.state_bytes + COLD_DISK_BYTES))
            for one in workload.tables
        ),
        finding_bytes=ceil(sum(COLD_BYTES * known[one.name] for one in workload.tables)),
    )


@dataclass(frozen=True)
class TrainingSetup:
    """How a worker trains: what changes its memory."""

    num_workers: int = 1
    stage: int = 0
    """The stage of sharding; 0: none."""
    has_half: bool = False
    """Activations in half precision, which the measured step did not have."""
    recomputes: bool = False
    num_merged: int = 1
    """Into how many parts a batch is cut."""
    offloads: bool = False


@dataclass(frozen=True)
class WorkerMemory:
    """What one worker has on its device, part by part."""

    parameters: int
    gradients: int
    state: int
    activations: int
    others: int
    cache: int = 0
    """The bytes of caches of hot rows."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.parameters + self.gradients + self.state + self.activations + self.others + self.cache


def activation_bytes(workload: Workload, setting: TrainingSetup) -> int:
    """What a worker keeps for backward."""
    kept = float(workload.measured.activation_bytes)
    if setting.recomputes and workload.block is not None:
        kept -= workload.block.saving
    if setting.has_half:
        kept /= 2
    return ceil(kept / setting.num_merged)


def worker_memory(workload: Workload, setting: TrainingSetup) -> WorkerMemory:
    """What one of so many workers has on its device."""
    dense, each = workload.dense, setting.num_workers
    parameters, gradients, state = dense.parameter_bytes, dense.gradient_bytes, dense.state_bytes
    if setting.stage >= 1:
        state = ceil(state / each)
    if setting.stage >= 2:
        gradients = ceil(gradients / each)
        parameters += ceil(dense.parameter_bytes / each)  # its share, beside what is gathered
    if setting.stage >= 3:
        parameters = ceil(dense.parameter_bytes / each) + min(SEGMENT_BYTES, 2 * dense.parameter_bytes)
    if setting.offloads:
        gradients = state = 0
        parameters = min(SEGMENT_BYTES, 2 * dense.parameter_bytes)
    cache = sum(map(cache_bytes, workload.tables))
    return WorkerMemory(parameters, gradients, state, activation_bytes(workload, setting), dense.other_bytes, cache)


def process_bytes(workload: Workload) -> int:
    """Host memory of a worker's process without the model, its step and its tables: interpreter, torch, the data."""
    seen = workload.measured
    on_host = seen.table_bytes
    if seen.device == "cpu":
        on_host += seen.parameter_bytes + seen.gradient_bytes + seen.state_bytes + seen.activation_bytes
        on_host += workload.dense.other_bytes + sum(map(cache_bytes, workload.tables))
    return max(0, seen.process_bytes - on_host)


def usable_gpu(gpu_memory: int) -> int:
    """The bytes of one GPU that a job may use."""
    return max(0, int(GPU_PART * gpu_memory) - CUDA_BYTES)


def merged_to_fit(workload: Workload, setting: TrainingSetup, limit: int) -> TrainingSetup | None:
    """The setting with the batch cut into the fewest parts that fit into so many bytes; None: not even one sample."""
    fixed = worker_memory(workload, setting).total - activation_bytes(workload, setting)
    room = limit - fixed
    if room <= 0:
        return None
    num_parts = ceil(activation_bytes(workload, replace(setting, num_merged=1)) / room)
    return replace(setting, num_merged=num_parts) if num_parts <= workload.batch_size else None


def is_known(optimizer: str) -> bool:
    """Whether there is a formula for an optimizer."""
    return optimizer in _FORMULAS


def state_bytes(optimizer: str, options: Options, num_tensors: int, parameter_bytes: int) -> int:
    """What an optimizer of torch keeps for a group of so many tensors that take so many bytes."""
    copies, counters = _FORMULAS[optimizer](options)
    return copies * parameter_bytes + counters * COUNTER_BYTES * num_tensors


def worker_parts(workload: Workload, one: WorkerMemory, device: str) -> list[MemoryPart]:
    """Parameters, gradients, state and activations on the worker's device, then its process in host memory."""
    seen = workload.measured
    peak = f"at its peak {seen.peak_bytes:,} bytes more than before the step" if seen.peak_bytes else ""
    elsewhere = "on the servers" if workload.dense.server_bytes else ""
    others = [MemoryPart("buffers, frozen", device, one.others, workload.dense.other_bytes)] if one.others else []
    if one.cache:
        rows = ", ".join(f"{table.cache_rows:,} rows of {table.name}" for table in workload.cached)
        others.append(MemoryPart("cache of hot rows", device, one.cache, None, rows))
    return [
        MemoryPart("dense parameters", device, one.parameters, seen.parameter_bytes),
        MemoryPart("gradients", device, one.gradients, seen.gradient_bytes),
        MemoryPart("optimizer state", device, one.state, seen.state_bytes, elsewhere),
        MemoryPart("activations", device, one.activations, seen.activation_bytes, peak),
        *others,
        MemoryPart("process", "host memory", process_bytes(workload), None, "Python, torch, what the script has read"),
    ]
