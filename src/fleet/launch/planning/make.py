"""Options and what the machines have agreed on -> plan: the same arguments give the same plan, on whatever machine."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fleet import env, net
from fleet.cores import MOST_NATIVE_THREADS, thread_variables
from fleet.launch.arguments.options import Options
from fleet.launch.planning.devices import num_local_workers
from fleet.launch.planning.durable_job import durable_variables
from fleet.launch.planning.layout import JobLayout, Needs
from fleet.launch.planning.machine import Machine
from fleet.launch.planning.needs import collective_needs
from fleet.launch.planning.plan import LaunchPlan, ProcessPlan
from fleet.launch.planning.script import command
from fleet.launch.planning.server_needs import server_needs


def common_variables(machine: Machine, num_local: int, network: Mapping[str, str]) -> dict[str, str]:
    """What every process gets unless the user has set it: the network interface, a share of the cores, large pages.

    A CPU worker makes and drops large gradients at every step; in small pages the kernel clears each anew.
    """
    variables = dict(network)
    if not machine.has_gpus and env.THP_MEM_ALLOC_ENABLE.text(machine.variables) is None:
        variables[env.THP_MEM_ALLOC_ENABLE.name] = "1"
    return variables | thread_variables(max(1, machine.num_cores // num_local), machine.variables)


def join(endpoints: tuple[net.Endpoint, ...]) -> str:
    """A comma list."""
    return ",".join(map(str, endpoints))


def collective_plan(options: Options, machine: Machine, layout: JobLayout, network: Mapping[str, str]) -> LaunchPlan:
    """This machine's workers."""
    assert layout.master is not None
    gpus = machine.worker_gpus
    num_local = len(layout.local_workers)
    common = common_variables(machine, num_local, network) | {
        "PADDLE_TRAINERS_NUM": str(len(layout.workers)),
        "PADDLE_TRAINER_ENDPOINTS": join(layout.workers),
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
                command=command(options),
                variables=own | common,
                log_path=Path(options.log_dir) / f"workerlog.{index}",
            )
        )
    kind = "cpu" if gpus is None else "gpu"
    arguments = [name for name, given in (("--gpus", options.gpus), ("--ips", options.ips)) if given]
    headline = f"Run collective {kind} mode. gpu arguments:{arguments}, cuda count:{machine.num_gpus}"
    return LaunchPlan(tuple(processes), layout, headline, bool(options.banner))


def server_plan(options: Options, machine: Machine, layout: JobLayout, network: Mapping[str, str]) -> LaunchPlan:
    """This machine's servers, then its workers."""
    num_local = len(layout.local_servers) + len(layout.local_workers)
    common = common_variables(machine, num_local, network)
    common |= durable_variables(options, machine.folder, machine.variables)
    common |= _step_variables(machine, len(layout.local_servers))
    common |= {
        "PADDLE_PSERVERS_IP_PORT_LIST": join(layout.servers),
        "PADDLE_TRAINER_ENDPOINTS": join(layout.workers),
        "PADDLE_TRAINERS_NUM": str(len(layout.workers)),
    }
    if options.worker_range is not None:
        common[env.FLEET_ELASTIC.name] = "1"
    if layout.number:
        common[env.FLEET_LAYOUT.name] = str(layout.number)
    processes = (*_servers(options, machine, layout, common), *_workers(options, machine, layout, common))
    names = ("servers", "workers", "server_num", "worker_num")
    given = [f"--{name}" for name in names if getattr(options, name) is not None]
    headline = f"Run parameter-server mode. pserver arguments:{given}"
    max_lives = None if options.durable is None else options.max_restart
    return LaunchPlan(processes, layout, headline, bool(options.banner), max_lives)


def _servers(options: Options, machine: Machine, layout: JobLayout, common: Mapping[str, str]) -> list[ProcessPlan]:
    gpus = machine.server_gpus
    found = []
    for local_index, index in enumerate(layout.local_servers):
        endpoint = layout.servers[index]
        own = {
            "TRAINING_ROLE": "PSERVER",
            "POD_IP": endpoint.host,
            "PADDLE_PORT": str(endpoint.port),
            "PADDLE_PSERVER_ID": str(index),
            "FLEET_DEVICE": "cuda" if gpus else "cpu",
        }
        device = "cpu"
        if gpus:  # one GPU each, so that a server has no choice to make
            own["CUDA_VISIBLE_DEVICES"] = gpus[local_index % len(gpus)]
            device = f"gpu {own['CUDA_VISIBLE_DEVICES']}"
        log_path = Path(options.log_dir) / f"serverlog.{index}"
        told = {**own, **common}
        found.append(
            ProcessPlan("server", index, str(endpoint), device, command(options), told, log_path, layout.number)
        )
    return found


def _workers(options: Options, machine: Machine, layout: JobLayout, common: Mapping[str, str]) -> list[ProcessPlan]:
    gpus = machine.worker_gpus
    found = []
    for local_rank, index in enumerate(layout.local_workers):
        endpoint = layout.workers[index]
        own, device = worker_variables(endpoint, index, local_rank, gpus or ())
        log_path = Path(options.log_dir) / f"workerlog.{index}"
        found.append(ProcessPlan("worker", index, str(endpoint), device, command(options), {**own, **common}, log_path))
    return found


def worker_variables(
    endpoint: net.Endpoint, index: int, local_rank: int, gpus: Sequence[str]
) -> tuple[dict[str, str], str]:
    """What one worker beside servers is told, and the device that it has."""
    own = {
        "TRAINING_ROLE": "TRAINER",
        "PADDLE_TRAINER_ID": str(index),
        "PADDLE_CURRENT_ENDPOINT": str(endpoint),
        "PADDLE_RANK_IN_NODE": str(local_rank),
        "FLEET_DEVICE": "cuda" if gpus else "cpu",
    }
    if not gpus:
        return own, "cpu"
    own["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    own["FLAGS_selected_gpus"] = gpus[local_rank % len(gpus)]
    return own, f"gpu {own['FLAGS_selected_gpus']}"


def _step_variables(machine: Machine, num_servers: int) -> dict[str, str]:
    """How many threads each of the servers here has for a synchronous step: all cores are theirs, for workers wait."""
    given = [one.text(machine.variables) for one in (env.FLEET_STEP_THREADS, env.FLEET_NATIVE_THREADS)]
    if not num_servers or given != [None, None]:
        return {}
    return {env.FLEET_STEP_THREADS.name: str(min(MOST_NATIVE_THREADS, max(1, machine.num_cores // num_servers)))}


def find_needs(options: Options, machine: Machine) -> Needs:
    """What this machine must hold, and where it meets the others; a FleetError of one line if that cannot work."""
    if options.is_server_job:
        return server_needs(options)
    return collective_needs(options, num_local_workers(options, machine.worker_gpus))


def make_plan(options: Options, machine: Machine, layout: JobLayout, network: Mapping[str, str]) -> LaunchPlan:
    """The processes of this machine, of a job laid out so; `network` has the variables of the chosen interface."""
    make = server_plan if options.is_server_job else collective_plan
    return make(options, machine, layout, network)
