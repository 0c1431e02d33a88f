"""The calculator of docs/sizing.md says what the planner says. Its formulas run in node, where there is one."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import fleet
from fleet import _native
from fleet.ps.job.named_spec import RuleSpec
from fleet_tools.planner import exchange
from fleet_tools.planner.facts import DenseFacts, Machines, Measured, TableFacts, Workload
from fleet_tools.planner.memory import measure_tables, row_bytes
from fleet_tools.planner.served import lay_out

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "docs" / "javascripts" / "sizing.js"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")
GIB, MIB = 1 << 30, 1 << 20
JOB: dict[str, Any] = {
    "rows": 10**9,
    "width": 16,
    "dtype": "float32",
    "rule": "Adagrad",
    "distinct": 10_400,
    "dense": 431_000,
    "cores": 16,
    "memory": 64 * GIB,
    "network": 1.25e9,
    "process": 400 * MIB,
    "activations": 8 * MIB,
}
JOBS = [
    JOB,
    JOB | {"rows": 1000, "cores": 2, "memory": 4 * GIB},
    JOB | {"rows": 26_000_000, "width": 10},
    JOB | {"rows": 10**11, "width": 8, "rule": "Adagrad, per_row", "dtype": "bfloat16", "network": 12.5e9},
    JOB | {"rows": 3 * 10**9, "width": 33, "rule": "Adam, AdamW, Adamax, Lamb", "dense": 20_000_000, "cores": 64},
    JOB | {"rows": 10**9, "memory": 1 * GIB},
]
RULES: dict[str, list[RuleSpec]] = {
    "SGD": [fleet.rules.SGD(lr=0.1)],
    "SGD, momentum": [fleet.rules.SGD(lr=0.1, momentum=0.9)],
    "Adagrad": [fleet.rules.Adagrad(lr=0.1)],
    "Adagrad, per_row": [fleet.rules.Adagrad(lr=0.1, per_row=True)],
    "Adam, AdamW, Adamax, Lamb": [
        rule(lr=0.1) for rule in (fleet.rules.Adam, fleet.rules.AdamW, fleet.rules.Adamax, fleet.rules.Lamb)
    ],
    "RMSprop, DecayedAdagrad, Lars": [
        rule(lr=0.1) for rule in (fleet.rules.RMSprop, fleet.rules.DecayedAdagrad, fleet.rules.Lars)
    ],
    "Ftrl": [fleet.rules.Ftrl(lr=0.1)],
}


def ask(expression: str) -> Any:
    """What node makes of an expression over the script, `s`."""
    assert NODE is not None
    program = f"const s = require({json.dumps(str(SCRIPT))}); console.log(JSON.stringify({expression}))"
    return json.loads(subprocess.run([NODE, "-e", program], check=True, capture_output=True, timeout=60).stdout)


def workload_of(job: dict[str, Any]) -> Workload:
    """The job as the planner knows it: dense parameters with Adam, a measured step on a CPU."""
    (rule, *_) = RULES[job["rule"]]
    state = 4 * _native.Rule(rule.name, dict(rule.args)).state_width(job["width"])
    values = job["width"] * (4 if job["dtype"] == "float32" else 2)
    dense = 4 * job["dense"]
    used = 2 * dense + job["activations"]
    measured = Measured("cpu", 1, 0, 0, 0, True, dense, dense, 0, job["activations"], 0, job["process"] + used)
    return Workload(
        model="Clicks",
        optimizer="Adam",
        batch_size=1000,
        is_collective=False,
        tables=(TableFacts("rows", job["width"], values, state, job["distinct"], job["distinct"]),),
        dense=DenseFacts(job["dense"], dense, dense, 0, server_bytes=3 * dense),
        measured=measured,
    )


def planned(job: dict[str, Any]) -> dict[str, Any]:
    """What the planner's functions give for it, in the calculator's words."""
    workload, rows = workload_of(job), {"rows": job["rows"]}
    tables = measure_tables(workload, rows)

    def on(hosts: int) -> tuple[Machines, Any]:
        machines = Machines(hosts, job["memory"], job["cores"], network=job["network"])
        return machines, lay_out(workload, machines, rows)

    layouts = {hosts: on(hosts)[1] for hosts in range(1, 4097)}
    in_memory = next((n for n, one in layouts.items() if one.room_of_host > 0 and not one.memory), None)
    on_disk = next((n for n, one in layouts.items() if one.room_of_host > 0 and one.finds), None)
    found = {
        "row": row_bytes(workload.tables[0]),
        "memory": tables.total,
        "disk": tables.disk_bytes,
        "finding": tables.finding_bytes,
        "step": exchange.served_bytes(workload),
        "hostsInMemory": in_memory,
        "hostsOnDisk": on_disk,
    }
    hosts = in_memory or on_disk
    if hosts is None:
        return found
    machines, layout = on(hosts)
    workers, servers = layout.workers_of_host * hosts, layout.servers_of_host * hosts
    took = exchange.served_s(workload, machines, workers, servers) if servers else 0.0
    return found | {"workers": workers, "servers": servers, "room": layout.room_of_host, "exchange": took}


@needs_node
@pytest.mark.parametrize("number", range(len(JOBS)))
def test_the_calculator_is_the_planner(number: int) -> None:
    found = ask(f"s.size({json.dumps(JOBS[number])})")
    found.pop("recovery", None)
    wanted = planned(JOBS[number])
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name] == (value if value is None else pytest.approx(value, rel=1e-12)), name


@needs_node
def test_every_rule_has_the_state_that_the_core_gives_it() -> None:
    widths = (1, 8, 33)
    pairs = f"Object.entries(s.RULES).map(([name, size]) => [name, {list(widths)}.map((width) => size(width))])"
    told = ask(f"Object.fromEntries({pairs})")
    assert told.keys() == RULES.keys()
    for name, rules in RULES.items():
        for width, found in zip(widths, told[name], strict=True):
            assert {_native.Rule(one.name, dict(one.args)).state_width(width) for one in rules} == {found}


@needs_node
def test_recovery_is_as_measured() -> None:
    (case,) = json.loads((ROOT / "benchmarks" / "results" / "recovery.json").read_text())["cases"]
    assert ask("s.RECOVERED_BYTES_PER_S") == pytest.approx(10_000_000 * 72 / case["median_recovery_s"])
    assert ask("s.START_S") == pytest.approx(case["median_away_s"] - case["median_recovery_s"], abs=0.05)
