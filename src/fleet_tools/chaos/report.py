"""The report of a job under chaos: a table on the terminal, and everything in LOG_DIR/chaos.json."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.launch.planning.plan import LaunchPlan
from fleet.launch.run.output import say
from fleet_tools.chaos.agent import Agent
from fleet_tools.chaos.findings import ChaosFindings, Invariant, Recovery, Witness, notes_of, recoveries

if TYPE_CHECKING:
    from rich.table import Table

log = logging.getLogger("fleetrun")
FILE = "chaos.json"


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


def find(agent: Agent, plan: LaunchPlan, code: int) -> ChaosFindings:
    """Put together what happened to a job that has ended with a code."""
    began_at = agent.began_at
    witness = Witness(plan, began_at)
    events: list[dict[str, Any]] = [
        {
            "at_s": blow.at - began_at,
            "what": f"{blow.kind} {blow.process.partition(' ')[0]}",
            "process": blow.process,
            "pid": blow.pid,
            "for_s": blow.for_s,
            "note": blow.note,
        }
        for blow in agent.blows
    ]
    events += witness.own_faults()
    events.sort(key=lambda event: event["at_s"])
    found = recoveries(plan, witness, agent.blows, agent.lives, began_at, ended_well=code == 0)
    invariants = [Invariant("the job ended in order", code == 0, f"exit code {code}"), *_all_back(found)]
    if plan.layout.servers:
        invariants += _pushes(plan, witness)
    took_s = time.time() - began_at
    missed = agent.chaos.not_yet(took_s)
    return ChaosFindings(str(agent.chaos), agent.seed, took_s, code, events, found, invariants, missed)


def _all_back(found: Sequence[Recovery]) -> list[Invariant]:
    killed = [one for one in found if one.what != "stop"]
    if not killed:
        return []
    missing = [f"{one.process} ({one.what} at {one.at_s:.1f} s)" for one in killed if not one.is_recovered]
    text = f"{len(killed) - len(missing)} of {len(killed)}" + (f"; not {', '.join(missing)}" if missing else "")
    return [Invariant("every process that was killed came back", not missing, text)]


def _pushes(plan: LaunchPlan, witness: Witness) -> list[Invariant]:
    """Whether each server has applied what it acknowledged, and nothing else."""
    name = "acknowledged pushes = applied pushes"
    if len(plan.layout.local_workers) < len(plan.layout.workers):
        return [Invariant(name, None, "not checked: some workers are on other machines")]
    found = []
    for server in range(len(plan.layout.servers)):
        acknowledged, applied = witness.acknowledged(server), witness.applied(server)
        if applied is None:
            found.append(Invariant(f"{name}, server {server}", None, "not checked: no worker got to its end"))
        else:
            text = f"{acknowledged} acknowledged, {applied} applied"
            found.append(Invariant(f"{name}, server {server}", acknowledged == applied, text))
    return found


def write(findings: ChaosFindings, folder: Path) -> Path:
    """Write the file, whole or not at all."""
    path, new = folder / FILE, folder / f"{FILE}.new"
    new.write_text(json.dumps(findings.to_json(), indent=1) + "\n")
    os.replace(new, path)
    return path


def tell(agent: Agent, plan: LaunchPlan, code: int, *, is_quiet: bool) -> int:
    """Report; returns the code of the job, or 1 if that is 0 and an invariant is broken."""
    findings = find(agent, plan, code)
    for process in plan.processes:
        notes_of(process).remove()
    folder = plan.processes[0].log_path.parent
    with contextlib.suppress(OSError):  # a full disk; the table has most of it
        write(findings, folder)
    if not (is_quiet and findings.are_good):
        say(text_of(findings, folder / FILE))
    if findings.are_good or code:
        return code
    broken = "; ".join(f"{one.name}: {one.text}" for one in findings.invariants if one.holds is False)
    log.error("chaos: %s", broken)
    return 1
