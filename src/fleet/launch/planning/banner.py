"""What fleetrun shows before it starts, if asked: the banner of PaddlePaddle's guides, the plan of a dry run."""

import re
import shlex
import time
from collections.abc import Mapping
from pathlib import Path

from fleet.launch.arguments.options import Options
from fleet.launch.planning.plan import LaunchPlan

_NAME_WIDTH, _GAP, _VALUE_WIDTH = 40, 2, 45
_RULE_WIDTH = _NAME_WIDTH + _GAP + _VALUE_WIDTH
_INDENT = " " * 4
_IMPORTS_PADDLE = re.compile(r"^\s*(?:import|from)\s+paddle\b", re.MULTILINE)


def is_of_the_guides(script: str) -> bool:
    """Whether a script is written for PaddlePaddle, whose guides show the banner for a plain `fleetrun`."""
    try:
        return _IMPORTS_PADDLE.search(Path(script).read_text(errors="replace")) is not None
    except OSError:  # a module
        return False


def whole_banner(options: Options, plan: LaunchPlan) -> str:
    """The arguments, the kind of job, and the variables of the first process."""
    started = (
        f"Local start {len(plan.processes)} processes. First process distributed environment info (Only For Debug):"
    )
    lines = [argument_block(options), _as_logged(plan.headline), _as_logged(started)]
    return "\n".join([*lines, variable_table(plan.processes[0].variables)])


def _as_logged(text: str) -> str:
    return f"INFO {time.strftime('%Y-%m-%d %H:%M:%S')} fleetrun] {text}"


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
