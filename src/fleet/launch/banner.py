"""What fleetrun shows before it starts: the argument block, the table of distributed variables, the dry-run plan."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from fleet.launch.options import Options
from fleet.launch.plan import LaunchPlan

_NAME_WIDTH, _GAP, _VALUE_WIDTH = 40, 2, 45
_RULE_WIDTH = _NAME_WIDTH + _GAP + _VALUE_WIDTH
_INDENT = " " * 4


def argument_block(options: Options) -> str:
    """Every argument with its value, sorted."""
    rows = [f"{name}: {value}".rstrip() for name, value in options.items()]
    return "\n".join(["-----------  Configuration Arguments -----------", *rows, "-" * 48])


def variable_table(variables: Mapping[str, str]) -> str:
    """The distributed variables of one process in a box; a value too long for it keeps its end."""

    def row(name: str, value: str) -> str:
        shown = value if len(value) < _VALUE_WIDTH else "... " + value[-(_VALUE_WIDTH - 4) :]
        return f"{_INDENT}|{name:>{_NAME_WIDTH}}{' ' * _GAP}{shown:^{_VALUE_WIDTH}}|"

    edge = f"{_INDENT}+{'=' * _RULE_WIDTH}+"
    middle = f"{_INDENT}+{'-' * _RULE_WIDTH}+"
    rows = [row(name, value) for name, value in variables.items()]
    return "\n".join([edge, row("Distributed Envs", "Value"), middle, *rows, edge])


def start_line(plan: LaunchPlan) -> str:
    """How many processes start here, and whose variables the table shows."""
    return (
        f"Local start {len(plan.processes)} processes. First process distributed environment info (Only For Debug):\n"
        + variable_table(plan.processes[0].variables)
    )


def dry_run_table(plan: LaunchPlan) -> str:
    """Every process that would start, as an aligned table, and the command they share."""
    rows = [("process", "endpoint", "device", "log")]
    rows += [(process.name, process.endpoint, process.device, str(process.log_path)) for process in plan.processes]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    lines.append(f"command: {shlex.join(plan.processes[0].command)}")
    lines.append("dry run: nothing was started; ports that come from the operating system will differ")
    return "\n".join(lines)
