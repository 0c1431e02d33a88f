"""Arguments -> plan: every process of this machine with its command, its variables and its log, before any starts."""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from fleet import env, net
from fleet.cores import MOST_NATIVE_THREADS, num_cores, thread_variables
from fleet.errors import NotSupportedError, UsageError
from fleet.jobfiles.chaos_spec import Strike
from fleet.jobfiles.layouts import server_folder
from fleet.launch.arguments.options import Options
from fleet.launch.durable import folder as durable
from fleet.launch.meet.team import Team
from fleet.launch.planning import devices
from fleet.launch.planning.layout import Layout, collective_layout
from fleet.launch.planning.network import check_given, network_variables
from fleet.launch.planning.server_layout import refuse_counts, roles_here, server_layout
from fleet.launch.processes.logs import check_folder
from fleet.launch.tls.certificates import refuse_tls

SELFCHECK_MODULE = "fleet.selfcheck"


@dataclass(frozen=True)
class ProcessPlan:
    """One process to start."""

    role: str
    """`worker` or `server`."""
    index: int
    endpoint: str
    device: str
    command: tuple[str, ...]
    variables: dict[str, str]
    """What fleetrun adds to the environment; the distributed ones are shown in the banner."""
    log_path: Path
    layout: int = 0
    """Of servers: which layout of them it belongs to (fleet.jobfiles.layouts)."""

    @property
    def name(self) -> str:
        """`worker 0`, `server 3`: as logs and reports call it."""
        return f"{self.role} {self.index}" if not self.layout else f"{self.role} {self.index} of layout {self.layout}"

    @property
    def folder(self) -> str:
        """The name of what it keeps in the folder of a durable job."""
        return f"worker-{self.index}" if self.role == "worker" else server_folder(self.index, self.layout)


@dataclass(frozen=True)
class LaunchPlan:
    """All processes of this machine, servers first, and the whole job they belong to."""

    processes: tuple[ProcessPlan, ...]
    layout: Layout
    headline: str
    has_banner: bool = False
    """Whether what the launcher says is as PaddlePaddle's guides show it, as far as they do."""
    max_lives: int | None = None
    """How often a process of a durable job is started again in its place; None: not at all."""

    @property
    def summary(self) -> str:
        """`2 servers and 4 workers on gpu 0, gpu 1`: what starts on this machine."""
        kinds = {role: [one for one in self.processes if one.role == role] for role in ("server", "worker")}
        counts = [f"{len(found)} {role}{'s' if len(found) > 1 else ''}" for role, found in kinds.items() if found]
        places = dict.fromkeys(process.device for process in kinds["worker"] or kinds["server"])
        return f"{' and '.join(counts)} on {', '.join(places)}"

    @property
    def followed(self) -> ProcessPlan:
        """The process whose log is shown on the terminal: the first worker here, else the first server."""
        return next((process for process in self.processes if process.role == "worker"), self.processes[0])


def refuse_mistakes(options: Options) -> None:
    """Raise for what can be seen without touching anything: contradictions, a missing script, an unusable folder."""
    refuse_counts(options)
    _refuse_contradictions(options)
    refuse_tls(options)
    durable.refuse_mistakes(options)
    _command(options)
    check_folder(Path(options.log_dir))


def make_plan(options: Options, team: Team, holds: ExitStack) -> LaunchPlan:
    """Check the options against this machine, meet the others for the next round, and lay out this machine's processes.

    Its ports are left in `holds`. Any mistake is a FleetError of one line, and then nothing has been started.
    """
    command = _command(options)
    if options.is_server_job:
        return _server_plan(options, command, team, holds)
    return _collective_plan(options, command, team, holds)


def _command(options: Options) -> tuple[str, ...]:
    if options.selfcheck:
        return (sys.executable, "-m", SELFCHECK_MODULE)
    if not options.script:
        raise UsageError(
            "no training script; write it after the options, for example: fleetrun --nproc_per_node 2 train.py"
        )
    if options.module:
        package = options.script.partition(".")[0]
        if importlib.machinery.PathFinder.find_spec(package, [os.getcwd(), *sys.path]) is None:
            raise UsageError(f"-m {options.script}: there is no module {package}; is it installed, or in this folder?")
        return (sys.executable, "-m", options.script, *options.script_args)
    path = Path(options.script)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"training script {options.script} {what}; it comes after fleetrun's own options")
    script = f"./{path}" if options.script.startswith("-") else options.script  # not an option of python
    return (sys.executable, script, *options.script_args)


def _refuse_contradictions(options: Options) -> None:
    """Options that are fine alone but not together; none is accepted and then ignored."""
    is_listed = options.servers is not None or options.workers is not None
    if options.is_server_job and (options.ips or options.nproc_per_node or options.gpus):
        clash = "--ips" if options.ips else "--nproc_per_node" if options.nproc_per_node else "--gpus"
        raise UsageError(f"{clash} belongs to a collective job; with servers use --worker_num or --workers instead")
    if options.server_device is not None and not options.is_server_job:
        raise UsageError(
            f"--server_device {options.server_device}: a collective job has no servers; leave it out, "
            "or add --server_num and --worker_num"
        )
    if options.master is not None and (options.ips is not None or is_listed):
        other = "--ips" if options.ips is not None else "--servers and --workers"
        raise UsageError(f"--master and {other} both say where the machines are; give one of them")
    if options.nnodes.is_range:
        _refuse_range(options)
    if options.master is not None and options.nnodes.most == 1:
        raise UsageError("--master needs --nnodes: the number of machines that will meet there, 2 or more")
    if options.master is not None and options.start_port is not None:
        raise UsageError(
            "--start_port has no meaning with --master: ports come from the operating system; leave it out"
        )
    if options.nnodes.most > 1 and options.master is None and options.ips is None and not is_listed:
        raise UsageError(f"--nnodes {options.nnodes} needs --master HOST:PORT, where the machines meet, or --ips")
    if options.ips is not None and options.nnodes.most not in (1, len(options.ips)):
        raise UsageError(f"--nnodes {options.nnodes}: --ips names {len(options.ips)} machines; leave --nnodes out")
    if options.rank is not None and options.master is None and options.ips is None:
        raise UsageError(f"--rank {options.rank} goes with --master or --ips; leave it out")
    if options.dry_run and options.master is not None:
        raise UsageError("--dry-run cannot show a job that meets at --master: other machines' ports are not known yet")
    if options.banner and options.quiet:
        raise UsageError("--banner shows more and --quiet less than usual; give one of them")
    _refuse_chaos(options)
    if options.selfcheck and options.script:
        raise UsageError(f"--selfcheck takes the place of a script; leave out {options.script}")


def _refuse_chaos(options: Options) -> None:
    """Faults that could strike nobody."""
    if options.chaos is None:
        if options.seed is not None:
            raise UsageError(
                f"--seed {options.seed} goes with --chaos; leave it out, or write it after the script to pass it on"
            )
        return
    needs_servers = [
        clause for clause in options.chaos.clauses if not isinstance(clause, Strike) or "server" in clause.roles
    ]
    if needs_servers and not options.is_server_job:
        raise UsageError(f"--chaos: {needs_servers[0]}: a collective job has no servers; kill and stop workers only")
    if options.chaos.disk_faults and options.durable is None:
        raise UsageError(f"--chaos: {options.chaos.disk_faults[0]}: there is no journal to harm without --durable DIR")


def _refuse_range(options: Options) -> None:
    """Where the number of machines cannot change."""
    if options.is_server_job:
        raise NotSupportedError(
            f"--nnodes {options.nnodes}: a changing number of machines is not supported with parameter servers; "
            "give one number"
        )
    if options.ips is not None:
        raise UsageError(
            f"--nnodes {options.nnodes}: --ips names the machines, so their number cannot change; "
            "use --master HOST:PORT instead of --ips"
        )
    if options.master is None:
        raise UsageError(f"--nnodes {options.nnodes} needs --master HOST:PORT, where machines come and go")


def _collective_plan(options: Options, command: tuple[str, ...], team: Team, holds: ExitStack) -> LaunchPlan:
    num_gpus = 0 if options.device == "cpu" else devices.count_gpus()
    gpus = devices.assign_gpus(options, devices.visible_gpus(num_gpus))
    num_local = devices.num_local_workers(options, gpus)
    check_given(options, has_gpus=gpus is not None)
    layout = collective_layout(options, num_local, team, holds)
    assert layout.master is not None
    common = _common_variables(layout, num_local, has_gpus=gpus is not None) | {
        "PADDLE_TRAINERS_NUM": str(len(layout.workers)),
        "PADDLE_TRAINER_ENDPOINTS": _join(layout.workers),
        "PADDLE_TRAINING_ROLE": "TRAINER",
        "WORLD_SIZE": str(len(layout.workers)),
        "LOCAL_WORLD_SIZE": str(num_local),
        "GROUP_RANK": str(layout.node_index),
        "GROUP_WORLD_SIZE": str(layout.num_nodes),
        "MASTER_ADDR": layout.master.host,
        "MASTER_PORT": str(layout.master.port),
        "FLEET_DEVICE": "cpu" if gpus is None else "cuda",
    }
    if gpus is not None:
        # Every worker sees all of the job's GPUs and takes number LOCAL_RANK, as scripts written for torchrun expect.
        common["CUDA_VISIBLE_DEVICES"] = ",".join(dict.fromkeys(gpus))
    processes = []
    for local_rank, index in enumerate(layout.local_workers):
        own = {
            "PADDLE_TRAINER_ID": str(index),
            "PADDLE_CURRENT_ENDPOINT": str(layout.workers[index]),
            "PADDLE_RANK_IN_NODE": str(local_rank),
            "RANK": str(index),
            "LOCAL_RANK": str(local_rank),
        }
        if gpus is not None:
            own["FLAGS_selected_gpus"] = gpus[local_rank]
        elif options.gpus:  # on a CPU they count workers, and scripts that name a place by this still find a number
            own["FLAGS_selected_gpus"] = str(options.gpus[local_rank % len(options.gpus)])
        processes.append(
            ProcessPlan(
                role="worker",
                index=index,
                endpoint=str(layout.workers[index]),
                device="cpu" if gpus is None else f"gpu {gpus[local_rank]}",
                command=command,
                variables=own | common,
                log_path=Path(options.log_dir) / f"workerlog.{index}",
            )
        )
    kind = "cpu" if gpus is None else "gpu"
    arguments = [name for name, given in (("--gpus", options.gpus), ("--ips", options.ips)) if given]
    headline = f"Run collective {kind} mode. gpu arguments:{arguments}, cuda count:{num_gpus}"
    return LaunchPlan(tuple(processes), layout, headline, bool(options.banner))


def _server_plan(options: Options, command: tuple[str, ...], team: Team, holds: ExitStack) -> LaunchPlan:
    gpus, server_gpus = _server_job_gpus(options)
    check_given(options, has_gpus=bool(gpus))
    present = durable.present_layout(options)
    if present is not None:
        options = replace(options, server_num=len(present.endpoints))
    else:
        durable.refuse_other_number(options)
    number = 0 if present is None else present.number
    layout = server_layout(options, team, holds)
    num_local = len(layout.local_servers) + len(layout.local_workers)
    common = _common_variables(layout, num_local, has_gpus=bool(gpus)) | durable.variables(options)
    common |= _step_variables(len(layout.local_servers))
    common |= {
        "PADDLE_PSERVERS_IP_PORT_LIST": _join(layout.servers),
        "PADDLE_TRAINER_ENDPOINTS": _join(layout.workers),
        "PADDLE_TRAINERS_NUM": str(len(layout.workers)),
    }
    if number:
        common[env.FLEET_LAYOUT.name] = str(number)
    processes = []
    for local_index, index in enumerate(layout.local_servers):
        endpoint = layout.servers[index]
        own = {
            "TRAINING_ROLE": "PSERVER",
            "POD_IP": endpoint.host,
            "PADDLE_PORT": str(endpoint.port),
            "PADDLE_PSERVER_ID": str(index),
            "FLEET_DEVICE": "cuda" if server_gpus else "cpu",
        }
        device = "cpu"
        if server_gpus:  # one GPU each, so that a server has no choice to make
            own["CUDA_VISIBLE_DEVICES"] = server_gpus[local_index % len(server_gpus)]
            device = f"gpu {own['CUDA_VISIBLE_DEVICES']}"
        log_path = Path(options.log_dir) / f"serverlog.{index}"
        processes.append(ProcessPlan("server", index, str(endpoint), device, command, own | common, log_path, number))
    for local_rank, index in enumerate(layout.local_workers):
        endpoint = layout.workers[index]
        own = {
            "TRAINING_ROLE": "TRAINER",
            "PADDLE_TRAINER_ID": str(index),
            "PADDLE_CURRENT_ENDPOINT": str(endpoint),
            "PADDLE_RANK_IN_NODE": str(local_rank),
            "FLEET_DEVICE": "cuda" if gpus else "cpu",
        }
        device = "cpu"
        if gpus:
            own["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
            own["FLAGS_selected_gpus"] = gpus[local_rank % len(gpus)]
            device = f"gpu {own['FLAGS_selected_gpus']}"
        log_path = Path(options.log_dir) / f"workerlog.{index}"
        processes.append(ProcessPlan("worker", index, str(endpoint), device, command, own | common, log_path))
    names = ("servers", "workers", "server_num", "worker_num")
    given = [f"--{name}" for name in names if getattr(options, name) is not None]
    headline = f"Run parameter-server mode. pserver arguments:{given}"
    max_lives = None if options.durable is None else options.max_restart
    return LaunchPlan(tuple(processes), layout, headline, bool(options.banner), max_lives)


def _server_job_gpus(options: Options) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The GPUs of this machine's workers and of its servers: none, unless asked for.

    Servers are for ordinary machines. A machine that starts only the others needs no GPU.
    """
    has_servers, has_workers = roles_here(options)
    wanted = options.device == "cuda" and has_workers, options.server_device == "cuda" and has_servers
    gpus = devices.visible_gpus(devices.count_gpus()) if any(wanted) else ()
    if any(wanted) and not gpus:
        asked = "--device" if wanted[0] else "--server_device"
        what = "train" if wanted[0] else "keep the tables"
        raise UsageError(
            f"{asked} cuda: this machine has no GPU that may be used; add {asked} cpu to {what} on the CPU"
        )
    return gpus if wanted[0] else (), gpus if wanted[1] else ()


def _common_variables(layout: Layout, num_local: int, has_gpus: bool) -> dict[str, str]:
    """What every process gets unless the user has set it: the network interface, a share of the cores, large pages.

    A CPU worker makes and drops large gradients at every step; in small pages the kernel clears each anew.
    """
    variables = network_variables(layout, has_gpus)
    if not has_gpus and env.THP_MEM_ALLOC_ENABLE.text() is None:
        variables[env.THP_MEM_ALLOC_ENABLE.name] = "1"
    return variables | thread_variables(max(1, num_cores() // num_local))


def _step_variables(num_servers: int) -> dict[str, str]:
    """How many threads each of the servers here has for a synchronous step: all cores are theirs, for workers wait."""
    if not num_servers or env.FLEET_STEP_THREADS.text() is not None or env.FLEET_NATIVE_THREADS.text() is not None:
        return {}
    return {env.FLEET_STEP_THREADS.name: str(min(MOST_NATIVE_THREADS, max(1, num_cores() // num_servers)))}


def _join(endpoints: tuple[net.Endpoint, ...]) -> str:
    return ",".join(map(str, endpoints))


def sharing_note(plan: LaunchPlan) -> str | None:
    """A line to show when several workers share a GPU, which NCCL refuses."""
    counts = Counter(process.device for process in plan.processes if process.role == "worker")
    shared = [device for device, count in counts.items() if count > 1 and device != "cpu"]
    return f"{', '.join(shared)}: shared by several workers; NCCL refuses that, Gloo works" if shared else None
