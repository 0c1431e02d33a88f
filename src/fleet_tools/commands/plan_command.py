"""`fleetrun plan SCRIPT`: run the script up to its first step, then say what fits where and how to start it."""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import click

from fleet import env
from fleet.errors import DeadlineError, UsageError
from fleet.job.endings import exit_code
from fleet.jobfiles import whole
from fleet.launch.arguments.misplaced import refuse_misplaced
from fleet.launch.arguments.options import Options
from fleet.launch.arguments.values import WholeNumber
from fleet.launch.meet.job_token import own_token
from fleet.launch.meet.team import Team
from fleet.launch.planning.devices import count_gpus, visible_gpus
from fleet.launch.planning.mistakes import refuse_mistakes
from fleet.launch.planning.plan import ProcessPlan
from fleet.launch.processes import guard as guards
from fleet.launch.processes.child import Child
from fleet.launch.processes.logs import JobIdentity, ReadyProcess
from fleet.launch.rounds.prepare import prepare
from fleet.strategy.sizes import size_bytes
from fleet_tools.planner import choose
from fleet_tools.planner.facts import Machines, Question, Workload
from fleet_tools.planner.show import WIDTH, show

EPILOG = """
\b
Examples:
  fleetrun plan train.py                                       for this machine
  fleetrun plan --rows ads=200000000 train.py --batch 4096     a table that will have so many rows
  fleetrun plan --hosts 4 --cores 64 --host_memory 512GiB --num_gpus 8 --gpu_memory 80GiB train.py
                                                               for machines that are not here

SCRIPT runs in one process up to its first optimizer.step(), of the optimizer that fleet.distributed_optimizer() gave,
and ends there; what it prints is shown on stderr, the plan on stdout. docs/plan.md has the formulas.
"""
TIMEOUT_S = 600.0
_LOOK_S = 0.02


class _Command(click.Command):
    """Keeps the words it was called with: some of them may stand in the wrong place."""

    def parse_args(self, context: click.Context, words: list[str]) -> list[str]:
        context.obj = tuple(words)
        return super().parse_args(context, words)


@dataclass(frozen=True)
class Asked:
    """The arguments of one `fleetrun plan`; None means as it is here."""

    options: Options
    rows: Mapping[str, int]
    changes: Mapping[str, Any]
    """Fields of `Machines` that the user has given."""
    timeout_s: float
    as_json: bool


def _rows(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        plain = number.replace(",", "").replace("_", "")
        if not equals or not name or not (plain.isascii() and plain.isdigit()):
            raise UsageError(f"--rows {text!r} is not TABLE=NUMBER, such as --rows ads=1000000")
        found[name] = int(plain)
    return found


def _size(_context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    return None if text is None else size_bytes(parameter.opts[0], int(text) if text.isdigit() else text)


def _network(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    """Bytes a second of `25Gbit` and its kind."""
    if text is None:
        return None
    number = text.lower().removesuffix("/s").removesuffix("it").removesuffix("gb").strip()
    try:
        gigabits = float(number)
    except ValueError:
        gigabits = 0.0
    if not 0 < gigabits < float("inf"):
        raise UsageError(f"--network {text!r} is not a number of gigabits a second, such as 25Gbit")
    return gigabits * 1e9 / 8


@click.command(
    cls=_Command, epilog=EPILOG, context_settings={"max_content_width": 110, "help_option_names": ["-h", "--help"]}
)
@click.option(
    "--rows", multiple=True, callback=_rows, metavar="TABLE=N", help="Rows a table will have; may be repeated."
)
@click.option("--hosts", "num_hosts", type=WholeNumber(1), help="How many such machines.  [default: 1]")
@click.option("--cores", "num_cores", type=WholeNumber(1), help="Of each machine.  [default: this one's]")
@click.option("--host_memory", "--host-memory", callback=_size, metavar="SIZE", help="Of each machine, such as 512GiB.")
@click.option("--num_gpus", "--num-gpus", type=WholeNumber(0), help="Of each machine.  [default: this one's]")
@click.option("--gpu_memory", "--gpu-memory", callback=_size, metavar="SIZE", help="Of each GPU, such as 80GiB.")
@click.option("--network", callback=_network, metavar="RATE", help="Between machines.  [default: 10Gbit]")
@click.option("--disk", callback=_size, metavar="SIZE", help="Free for rows on each machine.  [default: not asked]")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    callback=lambda _context, _parameter, text: text or (env.FLEET_DEVICE.get() or "auto").lower(),
    help="What to measure on.  [default: FLEET_DEVICE, else a GPU if there is one]",
)
@click.option(
    "--timeout", "timeout_s", type=float, default=TIMEOUT_S, show_default=True, help="Seconds for the script."
)
@click.option("--json", "as_json", is_flag=True, help="The plan as JSON, for programs.")
@click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as in python -m.")
@click.argument("script")
@click.argument("script_args", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def plan(context: click.Context, /, **arguments: Any) -> int:
    """Say what fits where (tables, parameters, activations), in which mode and how to start SCRIPT, and why."""
    names = ("num_hosts", "num_cores", "host_memory", "num_gpus", "gpu_memory", "network", "disk")
    changes = {name: arguments[name] for name in names if arguments[name] is not None}
    if changes.get("gpu_memory") and changes.get("num_gpus") == 0:
        raise UsageError("--gpu_memory goes with GPUs; leave it out, or give --num_gpus 1 or more")
    if not arguments["timeout_s"] > 0:
        raise UsageError(f"--timeout must be a number of seconds > 0, got {arguments['timeout_s']:g}")
    options = Options(
        script=arguments["script"],
        script_args=arguments["script_args"],
        module=arguments["module"],
        device=arguments["device"],
        nproc_per_node=1,
        quiet=True,
    )
    words, name = context.obj, context.command_path
    refuse_misplaced(plan, words, len(options.script_args), name, is_module=options.module)
    refuse_mistakes(options)
    return _tell(Asked(options, arguments["rows"], changes, arguments["timeout_s"], arguments["as_json"]))


plan.allow_interspersed_args = False


def _tell(asked: Asked) -> int:
    """Look, think and show; 0 where the plan fits, 3 where nothing does."""
    facts = _look(asked)
    machines = replace(_here(facts["machine"]), **asked.changes)
    if machines.num_gpus and not machines.gpu_memory:
        raise UsageError(f"--num_gpus {machines.num_gpus}: say how large they are, such as --gpu_memory 80GiB")
    words = (asked.options.script, *asked.options.script_args)
    question = Question(machines, asked.rows, ("-m", *words) if asked.options.module else words)
    made = choose.make_plan(Workload.from_plain(facts["workload"]), question)
    if asked.as_json:
        print(json.dumps(made.to_json(), indent=1))
    else:
        show(made, sys.stdout, None if sys.stdout.isatty() else WIDTH)
    return 0 if made.choice.fits else 3


def _here(seen: Mapping[str, Any]) -> Machines:
    """This machine as the script saw it; it was given one GPU, and there may be more."""
    found = Machines(**seen)
    return replace(found, num_gpus=len(visible_gpus(count_gpus()))) if found.num_gpus else found


def _look(asked: Asked) -> dict[str, Any]:
    """What the script's first step shows. Everything temporary of it is removed, its processes are ended."""
    job_id = guards.new_job_id()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup leaves it
            signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    with ExitStack() as resources:
        guard = guards.Guard(job_id)
        resources.callback(guard.dismiss)
        folder = Path(mkdtemp(prefix="fleet-plan-"))
        resources.callback(shutil.rmtree, folder, ignore_errors=True)
        token = own_token()
        planned = prepare(replace(asked.options, log_dir=str(folder)), Team(token, 0), resources).plan
        told = folder / "facts.json"
        ready = ReadyProcess(_with_folders(planned.processes[0], folder, told), log=2)
        child = Child(ready, JobIdentity(job_id, token.value))
        guard.watch(child.pid)
        resources.callback(guards.sweep, job_id)
        resources.callback(child.reap)
        code = _wait(child, asked)
        found = whole.read(told)
        if found is not None and "workload" in found:
            return found
    raise UsageError(_why_not(asked.options.script, code))


def _with_folders(process: ProcessPlan, folder: Path, told: Path) -> ProcessPlan:
    """What the script writes for a while goes where it is removed with the rest: it ends without tidying up."""
    kept = folder / "tmp"
    kept.mkdir()
    own = {env.FLEET_PLAN.name: str(told), env.FLEET_TABLE_DIR.name: str(kept / "tables"), "TMPDIR": str(kept)}
    return replace(process, variables=process.variables | own)


def _wait(child: Child, asked: Asked) -> int:
    """Until the script has ended; DeadlineError if that takes too long."""
    deadline = time.monotonic() + asked.timeout_s
    while (ended := os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)) is None:
        if time.monotonic() > deadline:
            raise DeadlineError(
                f"{asked.options.script} has not come to its first optimizer.step() in {asked.timeout_s:g} s; does it "
                "train with what fleet.distributed_optimizer() gave? Give it longer with --timeout"
            )
        time.sleep(_LOOK_S)
    return exit_code(ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status)


def _why_not(script: str, code: int) -> str:
    if code == 0:
        return (
            f"{script} ended without an optimizer.step() of what fleet.distributed_optimizer() gives, with a model "
            "from fleet.distributed_model(); there is nothing to plan"
        )
    return f"{script} ended with code {code} before its first step; what it said is above"
