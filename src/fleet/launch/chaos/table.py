"""The report of a job under chaos as text: what was done, what each recovery took, which invariants hold."""

from __future__ import annotations

import io
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.launch.chaos.findings import ChaosFindings, Recovery

if TYPE_CHECKING:
    from rich.table import Table

WIDTH = 110
_MOST_TIMES = 8
"""How many moments of one kind a line names."""
_MOST_RECOVERIES = 12
"""How many recoveries have a line each; more are put together."""
_VERDICTS = {True: "holds", False: "BROKEN", None: "?"}


def text_of(findings: ChaosFindings, path: Path) -> str:
    """Everything, for a terminal; `path` is where each event is told."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=WIDTH, record=True, color_system=None)
    tables = [_done(findings)] if findings.counts else []
    if findings.recoveries:
        is_long = len(findings.recoveries) > _MOST_RECOVERIES
        tables.append(_put_together(findings.recoveries) if is_long else _each(findings.recoveries))
    held = _table("invariant", "", "")
    for one in findings.invariants:
        held.add_row(one.name, _VERDICTS[one.holds], one.text)
    console.print(f"chaos with seed {findings.seed}: {findings.chaos}", markup=False, highlight=False)
    if findings.missed:
        missed = "; ".join(findings.missed)
        console.print(f"the job ended after {findings.took_s:.1f} s, before: {missed}", markup=False, highlight=False)
    for table in (*tables, held):
        console.print()
        console.print(table)
    console.print(f"\nevery event is in {path}", soft_wrap=True, markup=False, highlight=False)
    return "\n".join(line.rstrip() for line in console.export_text().rstrip().split("\n"))


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for number, column in enumerate(columns):
        is_number = column == "times" or column.endswith(" s")
        table.add_column(column, justify="right" if is_number else "left", no_wrap=not number)
    return table


def _done(findings: ChaosFindings) -> Table:
    table = _table("done", "times", "seconds after the start")
    for what, count in sorted(findings.counts.items()):
        events = [event for event in findings.events if event["what"] == what and not event.get("note")]
        moments = [f"{event['at_s']:.1f}" for event in events[:_MOST_TIMES]]
        table.add_row(what, str(count), ", ".join(moments) + (", ..." if count > _MOST_TIMES else ""))
    return table


def _each(recoveries: Sequence[Recovery]) -> Table:
    table = _table("struck", "how", "at s", "started again after s", "back after s", "first step after s", "")
    for one in recoveries:
        times = (one.at_s, one.restarted_s, one.back_s, one.step_s)
        table.add_row(one.process, one.what, *("" if value is None else f"{value:.2f}" for value in times), one.note)
    return table


def _put_together(recoveries: Sequence[Recovery]) -> Table:
    """One line for each process and what struck it."""
    table = _table("struck", "how", "times", "back, median s", "most s", "first step, median s", "most s", "")
    kinds = sorted({(one.process, one.what) for one in recoveries})
    for process, what in kinds:
        mine = [one for one in recoveries if (one.process, one.what) == (process, what)]
        back = _median_and_most(one.back_s for one in mine)
        step = _median_and_most(one.step_s for one in mine)
        notes = sorted({one.note for one in mine if one.note})
        said = ", ".join(f"{_times(sum(one.note == note for one in mine))}: {note}" for note in notes)
        table.add_row(process, what, str(len(mine)), *back, *step, said)
    return table


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _median_and_most(values: Iterable[float | None]) -> tuple[str, str]:
    known = [value for value in values if value is not None]
    return (f"{statistics.median(known):.2f}", f"{max(known):.2f}") if known else ("", "")
