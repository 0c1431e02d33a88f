"""The plan of a job with parameter servers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fleet import env
from fleet.cores import MOST_NATIVE_THREADS
from fleet.launch.arguments.options import Options
from fleet.launch.planning.common import common_variables, join
from fleet.launch.planning.durable_job import durable_variables
from fleet.launch.planning.layout import JobLayout
from fleet.launch.planning.machine import Machine
from fleet.launch.planning.plan import LaunchPlan, ProcessPlan
from fleet.launch.planning.script import command


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
        found.append(ProcessPlan("worker", index, str(endpoint), device, command(options), {**own, **common}, log_path))
    return found


def _step_variables(machine: Machine, num_servers: int) -> dict[str, str]:
    """How many threads each of the servers here has for a synchronous step: all cores are theirs, for workers wait."""
    given = [one.text(machine.variables) for one in (env.FLEET_STEP_THREADS, env.FLEET_NATIVE_THREADS)]
    if not num_servers or given != [None, None]:
        return {}
    return {env.FLEET_STEP_THREADS.name: str(min(MOST_NATIVE_THREADS, max(1, machine.num_cores // num_servers)))}
