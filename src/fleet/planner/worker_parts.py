"""The rows of a plan that are about one worker, beside what the measured step had of them."""

from __future__ import annotations

from fleet.planner.facts import Workload
from fleet.planner.memory import WorkerMemory, process_bytes
from fleet.planner.plan import MemoryPart


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
