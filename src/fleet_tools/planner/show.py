"""A plan as a person reads it: what goes where, how long a step takes, why, and what to write."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, TextIO

from fleet.strategy.sizes import in_units

if TYPE_CHECKING:
    from fleet_tools.planner.facts import Machines
    from fleet_tools.planner.plan import Plan

WIDTH = 110


def as_text(plan: Plan) -> str:
    """Without colours."""
    text = io.StringIO()
    show(plan, text, width=WIDTH)
    return text.getvalue()


def show(plan: Plan, stream: TextIO, width: int | None = None) -> None:
    """Write it to a stream, in colours where that is a terminal."""
    from rich.console import Console
    from rich.table import Table

    console = Console(file=stream, width=width, highlight=False, soft_wrap=False)
    workload, choice = plan.workload, plan.choice
    verdict = "fits" if choice.fits else "does NOT fit"
    console.print(f"[bold]{workload.model}[/] with {workload.optimizer}, batches of {workload.batch_size:,}")
    console.print(f"on {describe(plan.question.machines)}: [bold]{choice.mode}[/], {verdict}\n")
    table = Table(box=None, pad_edge=False)
    for name in ("what", "where", "estimate", "this step", ""):
        table.add_column(name, justify="right" if name in ("estimate", "this step") else "left", overflow="fold")
    for part in choice.parts:
        is_sum = " in all" in part.what
        figures = ["" if one is None else in_units(one) for one in (part.estimate, part.measured)]
        table.add_row(part.what, part.where, *figures, part.note, style="bold" if is_sum else None)
    console.print(table)
    console.print("\n[bold]a step[/]")
    for line in _times(plan):
        console.print(f"  {line}")
    for title, lines in (("why", choice.reasons), ("assumed", choice.assumed), ("notes", workload.notes)):
        if lines:
            console.print(f"\n[bold]{title}[/]")
            for line in lines:
                console.print(f"  - {line}", markup=False)
    console.print("\n[bold]to write[/]")
    for line in (*choice.code, choice.command):
        console.print(f"    {line}", markup=False, soft_wrap=True)


def describe(machines: Machines) -> str:
    """`4 machines with 64 cores, 512 GiB and 8 GPUs of 80 GiB each`."""
    one = f"{machines.num_cores} core{'s' * (machines.num_cores != 1)}, {in_units(machines.host_memory)}"
    if machines.num_gpus:
        one += f" and {machines.num_gpus} GPU{'s' * (machines.num_gpus != 1)} of {in_units(machines.gpu_memory)}"
    return f"one machine with {one}" if machines.num_hosts == 1 else f"{machines.num_hosts} machines with {one} each"


def _times(plan: Plan) -> list[str]:
    seen, times = plan.workload.measured, plan.choice.times
    kind = "median of repeated steps" if seen.is_warm else "the very first step, which warms up"
    parts = f"forward {_ms(seen.forward_s)}, backward {_ms(seen.backward_s)}, update {_ms(seen.update_s)}"
    rate = plan.workload.batch_size / seen.compute_s if seen.compute_s else 0.0
    lines = [
        f"measured here    {parts}: {_ms(seen.compute_s)}, {rate:,.0f} samples/s (on {_device(plan)}, {kind})",
    ]
    if times.step_s is None or times.compute_s is None or times.samples_per_s is None:
        lines.append(
            f"in the plan      not known: the step was measured on {seen.device}; exchange {_ms(times.exchange_s)}"
        )
    else:
        workers = f"{plan.choice.num_workers} worker{'s' * (plan.choice.num_workers != 1)}"
        lines.append(
            f"in the plan      own work {_ms(times.compute_s)}, exchange {_ms(times.exchange_s)}: "
            f"{_ms(times.step_s)}, {times.samples_per_s:,.0f} samples/s by {workers}"
        )
    return lines


def _device(plan: Plan) -> str:
    seen = plan.workload.measured
    return "a GPU" if seen.device == "cuda" else f"{seen.threads} thread{'s' * (seen.threads != 1)} of the CPU"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.3g} ms"
