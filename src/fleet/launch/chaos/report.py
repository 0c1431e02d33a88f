"""The report of a job under chaos: a table on the terminal, and everything in LOG_DIR/chaos.json."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fleet.launch.chaos.agent import Agent
from fleet.launch.chaos.findings import ChaosFindings, Invariant, Recovery, Witness, notes_of, recoveries
from fleet.launch.chaos.table import text_of
from fleet.launch.planning.plan import LaunchPlan
from fleet.launch.run.output import say

log = logging.getLogger("fleetrun")

FILE = "chaos.json"


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
