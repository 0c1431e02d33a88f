"""The options of fleetrun as click has them: names, help, and the check of each value alone."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, cast

import click

from fleet import env, net
from fleet._lazy import tool
from fleet._version import __version__
from fleet.errors import UsageError
from fleet.launch.arguments.options import MAX_LIVES, AskedFaults, Nodes, Options
from fleet.launch.arguments.values import NumberOrRange, WholeNumber
from fleet.observe.tracing.window import Window

EPILOG = """
\b
Examples:
  fleetrun --nproc_per_node 2 --device cpu train.py --epochs 3    two CPU workers
  fleetrun --gpus 0,1 train.py                                    two GPUs of this machine
  fleetrun --ips 10.0.0.1,10.0.0.2 --gpus 0,1 train.py            two machines; run it on both
  fleetrun --master 10.0.0.1:6000 --nnodes 2 train.py             the same, machines meet at an address
  fleetrun --master 10.0.0.1:6000 --nnodes 1:4 --max_restart 3 train.py    machines may come, fail and go
  fleetrun --server_num 2 --worker_num 2 train.py                 parameter servers, all on this machine
  fleetrun --server_num 2 --worker_num 2 --durable kept train.py  a process that dies costs seconds, and nothing else
  fleetrun --master 10.0.0.1:6000 --nnodes 3 --server_num 1 --worker_num 1 --durable kept --standby sync train.py
                                                                  the same of a machine that burns
  fleetrun reshard 3 --durable kept                               that job goes on with three servers
  fleetrun --server_num 2 --worker_num 2 --dashboard train.py     the same, with a page that shows it
  fleetrun view log                                               that page for a job that has ended; top: as a table
  fleetrun --server_num 2 --worker_num 2 --trace 20:40 train.py   what every process did in steps 20 to 40
  fleetrun --servers 10.0.0.1:6170 --workers 10.0.0.2,10.0.0.3 train.py    parameter servers, several machines
  fleetrun --nproc_per_node 2 --selfcheck                         does this machine work?
  fleetrun plan train.py                                          what fits where, and how to start it
  fleetrun --server_num 2 --worker_num 4 --render k8s train.py    the same job for Kubernetes, printed

Every process writes LOG_DIR/workerlog.N or LOG_DIR/serverlog.N; worker 0 is followed here. The exit code is that
of the process that failed first, 128+n if signal n ended it, 2 if the arguments cannot work. What follows SCRIPT is
its own; to give it an option by the name of one above, write -- before it: fleetrun -- train.py --workers 4
"""


def _trace(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Window | None:
    return None if text is None else Window.parse(text)


def _gpus(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(f"--gpus {text!r} is not a comma list of GPU numbers, such as 0,1")
    numbers = tuple(map(int, parts))
    if len(set(numbers)) < len(numbers):
        raise UsageError(f"--gpus {text} names a GPU twice; to share one, use --nproc_per_node")
    return numbers


def _device(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str:
    return text or (env.FLEET_DEVICE.get() or "auto").lower()


def _durable(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    is_inside_a_job = env.FLEET_JOB_ID.get() is not None  # whose folder is not this one's
    return text if text is not None or is_inside_a_job else env.FLEET_DURABLE.get()


def _nnodes(_context: click.Context, _parameter: click.Parameter, text: str) -> Nodes:
    return Nodes.parse(text)


def _chaos(_context: click.Context, _parameter: click.Parameter, text: str | None) -> AskedFaults | None:
    return None if text is None else cast("AskedFaults", tool("chaos_spec").parse(text, "--chaos"))


def _ips(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    return None if text is None else net.parse_hosts(text, "--ips")


def _verify_journal(context: click.Context, _parameter: click.Parameter, folder: str | None) -> None:
    if folder is not None:
        context.exit(subprocess.call([sys.executable, "-m", "fleet.ps.journal", folder]))


# Options of torchrun and of PaddlePaddle's launcher that have another name or no need here.
ELSEWHERE = {
    "__standalone": "not needed: ports come from the operating system, jobs never collide",
    "__rdzv_endpoint": "use --master HOST:PORT with --nnodes",
    "__rdzv_backend": "not needed: use --master HOST:PORT with --nnodes, or --ips",
    "__rdzv_id": "not needed: use --master HOST:PORT with --nnodes, or --ips",
    "__node_rank": "use --rank",
    "__master_addr": "use --master HOST:PORT with --nnodes",
    "__master_port": "use --master HOST:PORT with --nnodes",
    "__max_restarts": "use --max_restart",
    "__heter_workers": "heterogeneous workers are not supported yet",
    "__heter_worker_num": "heterogeneous workers are not supported yet",
    "__http_port": "not needed: workers meet at worker 0",
}


_POSITIVE = WholeNumber(1)
_COUNT = NumberOrRange()
_INDEX = WholeNumber(0)
_PORT = WholeNumber(1, 65535)
_PORT_OR_FREE = WholeNumber(0, 65535)


@click.command(epilog=EPILOG, context_settings={"max_content_width": 110, "help_option_names": ["-h", "--help"]})
@click.option(
    "--nproc_per_node",
    "--nproc-per-node",
    type=_POSITIVE,
    help="Workers on this machine.  [default: one per GPU, else 1]",
)
@click.option(
    "--gpus", "--selected_gpus", "--devices", callback=_gpus, metavar="0,1,..", help="GPUs to use, one worker each."
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    callback=_device,
    help="What workers train on; auto takes GPUs if there are any, or the CPU beside servers.  [default: FLEET_DEVICE, "
    "else auto]",
)
@click.option(
    "--ips", callback=_ips, metavar="HOST,..", help="Addresses of all machines; run the same command on each."
)
@click.option("--master", metavar="HOST:PORT", help="Where the machines meet, instead of --ips.")
@click.option(
    "--nnodes",
    default="1",
    show_default=True,
    callback=_nnodes,
    metavar="N|A:B",
    help="Number of machines that meet at --master; A:B: at least A, at most B, which come and go.",
)
@click.option("--rank", type=_INDEX, help="Index of this machine.  [default: by address or by arrival]")
@click.option(
    "--server_num",
    "--server-num",
    type=_COUNT,
    help="Parameter servers to start on this machine; A:B: A of them, and fleetrun scale may make it up to B.",
)
@click.option(
    "--worker_num",
    "--worker-num",
    "--trainer_num",
    "--trainer-num",
    type=_COUNT,
    help="Workers to start beside the servers; A:B: A of them, and up to B come and go while the job runs.",
)
@click.option(
    "--server_device",
    "--server-device",
    type=click.Choice(["cpu", "cuda"]),
    help="Where servers keep dense parameters; tables stay in host memory. Servers of a machine share its GPUs.  "
    "[default: cpu]",
)
@click.option("--servers", metavar="HOST:PORT,..", help="Every parameter server of the job.")
@click.option("--workers", "--trainers", metavar="HOST[:PORT],..", help="Every worker of the job.")
@click.option(
    "--start_port", "--start-port", type=_PORT, help="First port.  [default: from the OS; several machines: 6070]"
)
@click.option("--log_dir", "--log-dir", default="log", show_default=True, help="Folder of the log files.")
@click.option(
    "--max_restart",
    "--max-restart",
    type=_INDEX,
    help="Restarts after a failure; with --durable: of one process within 10 minutes.  [default: 0; with --durable 10]",
)
@click.option(
    "--durable",
    callback=_durable,
    metavar="DIR",
    help="Servers keep a journal in DIR: a server or worker that dies is started again alone, and nothing is lost.",
)
@click.option(
    "--journal",
    type=click.Choice(["os", "interval", "always"]),
    help="When the journal of --durable reaches the disk: left to the system, every second, or before each answer.  "
    "[default: os]",
)
@click.option(
    "--standby",
    type=click.Choice(["sync", "async"]),
    help="Every server of --durable has a copy on another machine, which takes its place where the machine is lost; a "
    "push is acknowledged when the copy has it (sync), or before.  [default: no copies]",
)
@click.option(
    "--scale",
    metavar="RULE",
    help='How many workers there are of --worker_num A:B: "workers to keep servers at 70% of a core".  '
    "[default: as many as fleetrun scale asks for]",
)
@click.option(
    "--chaos",
    callback=_chaos,
    metavar="TEXT",
    help='Faults on purpose, and a report at the end, for example "kill server every 5s; drop 1% rpc".',
)
@click.option("--seed", type=_INDEX, help="With --chaos: decides whom and what it strikes.  [default: 0]")
@click.option(
    "--tls/--no-tls",
    default=None,
    help="Encrypt what workers and servers say to each other, with certificates minted for the job.  [default: if it "
    "spans machines]",
)
@click.option(
    "--metrics_port",
    "--metrics-port",
    type=_PORT_OR_FREE,
    metavar="PORT",
    help="Figures for Prometheus at http://127.0.0.1:PORT/metrics; 0 takes a free port.  [default: none]",
)
@click.option(
    "--dashboard",
    type=_PORT_OR_FREE,
    metavar="[PORT]",
    help="A page that shows the job while it runs, at PORT or a free port.  [default: none]",
)
@click.option(
    "--trace",
    callback=_trace,
    metavar="A:B",
    help="Record steps A to B of every process into LOG_DIR/trace.json, for ui.perfetto.dev.  [default: none]",
)
@click.option(
    "--tensorboard",
    metavar="[=DIR]",
    help="Write curves and histograms for TensorBoard, into DIR or LOG_DIR/tensorboard.  [default: none]",
)
@click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as in python -m.")
@click.option("--dry-run", "--dry_run", is_flag=True, help="Show what would start, start nothing.")
@click.option(
    "--render",
    metavar="ENGINE",
    help="Print what another engine needs to run this command line, and start nothing: slurm, k8s, jobset, kubeflow, "
    "volcano, ray, torchx, skypilot or compose.",
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing of a job that goes well; warnings and failures only.")
@click.option(
    "--banner/--no-banner",
    default=None,
    help="Show arguments and variables first, as PaddlePaddle's launcher does; usual for scripts that import paddle.",
)
@click.option("--selfcheck", is_flag=True, help="Instead of a script, check that these processes can talk.")
@click.option(
    "--verify-journal",
    "--verify_journal",
    metavar="DIR",
    is_eager=True,
    expose_value=False,
    callback=_verify_journal,
    help="Instead of a job, say whether all that its servers keep in DIR is whole; the exit code is 0 if it is.",
)
@click.version_option(__version__, prog_name="fleetrun")
@click.argument("script", required=False, default="")
@click.argument("script_args", nargs=-1, type=click.UNPROCESSED)
def parse(**arguments: Any) -> Options:
    """Start SCRIPT on several workers, with or without parameter servers, on one machine or many."""
    if arguments["max_restart"] is None:
        arguments["max_restart"] = 0 if arguments["durable"] is None else MAX_LIVES
    for role, at_first in (("server", "least"), ("worker", "most")):
        given: Nodes | None = arguments[f"{role}_num"]
        arguments[f"{role}_range"] = given if given is not None and given.is_range else None
        arguments[f"{role}_num"] = None if given is None else getattr(given, at_first)
    return Options(**arguments)


# What follows the script belongs to the script; `refuse_misplaced` asks about what looks like an option of fleetrun.
parse.allow_interspersed_args = False
