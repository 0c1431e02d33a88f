"""The arithmetic of time: what workers exchange in a step, and what of it nobody waits for."""

from fleet_tools.planner.facts import Machines, TableFacts, Workload

INSIDE_CPU, INSIDE_GPU = 2e9, 50e9
"""Bytes a second between two processes of one machine, through its memory and between its GPUs; assumed."""
KEY_BYTES = 8


def all_reduce_s(workload: Workload, machines: Machines, num_workers: int) -> float:
    """A ring: each worker sends 2 (N - 1) / N times the gradients, over the slowest link."""
    if num_workers == 1:
        return 0.0
    speed = INSIDE_GPU if machines.num_gpus else INSIDE_CPU
    if machines.num_hosts > 1:
        speed = min(speed, machines.network)
    return 2 * (num_workers - 1) / num_workers * workload.dense.gradient_bytes / speed


def rows_bytes(table: TableFacts) -> int:
    """The bytes of one worker's step, one way: a pull brings rows for keys, a push takes keys and gradients."""
    return table.num_distinct * (KEY_BYTES + 4 * table.width)


def served_bytes(workload: Workload) -> int:
    """The bytes of one worker's step, one way: rows of the distinct keys, and the dense parameters."""
    return sum(map(rows_bytes, workload.tables)) + 4 * workload.dense.num_values


def served_s(workload: Workload, machines: Machines, num_workers: int, num_servers: int) -> float:
    """Pull and push of one step where all workers do so at once: the busiest of workers' and servers' links decides."""
    own = served_bytes(workload)
    if machines.num_hosts == 1:
        return 2 * own * num_workers / INSIDE_CPU / max(1, min(num_workers, num_servers))
    of_host = own * num_workers / machines.num_hosts
    of_server = own * num_workers / min(num_servers, machines.num_hosts)
    return 2 * max(of_host, of_server) / machines.network


def compute_s(workload: Workload, machines: Machines, workers_of_host: int) -> float | None:
    """A worker's own part of a step; None where it trains on what nobody has measured.

    Workers of one machine share its cores: where they have fewer threads each than the measured one had, they take
    longer in proportion.
    """
    seen = workload.measured
    if (machines.num_gpus > 0) != (seen.device == "cuda"):
        return None
    if machines.num_gpus:
        return seen.compute_s
    threads = max(1.0, machines.num_cores / workers_of_host)
    return seen.compute_s * max(1.0, seen.threads / threads)
