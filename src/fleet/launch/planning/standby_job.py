"""`--standby`: what cannot work, who has a copy of what when a job begins, and processes that take another's place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fleet import env
from fleet.errors import UsageError
from fleet.launch.arguments.options import Options
from fleet.launch.planning.layout import JobLayout
from fleet.launch.planning.plan import LaunchPlan, ProcessPlan
from fleet.launch.planning.script import COPY_COMMAND, command
from fleet.launch.standby.orders import Orders

_OF_SERVERS = ("POD_IP", "PADDLE_PORT", "PADDLE_PSERVER_ID", env.FLEET_COPY_OF.name)
_OF_WORKERS = ("PADDLE_TRAINER_ID", "PADDLE_CURRENT_ENDPOINT", "PADDLE_RANK_IN_NODE", "FLAGS_selected_gpus")


def refuse_standby(options: Options) -> None:
    """Raise for what cannot work, without touching anything."""
    if options.standby is not None and options.durable is None:
        raise UsageError(
            f"--standby {options.standby}: copies follow the journals of --durable; add --durable DIR, a folder on "
            "each machine's own disk"
        )


def refuse_one_machine(options: Options, num_nodes: int) -> None:
    """UsageError if a copy would be on the machine of its server."""
    if options.standby is not None and num_nodes < 2:
        raise UsageError(
            f"--standby {options.standby}: a copy is on another machine than its server, and this job has one; start "
            "it on two or more (--master HOST:PORT --nnodes 2, or --servers and --workers), or leave --standby out"
        )


def with_copies(options: Options, plan: LaunchPlan, orders: Orders) -> LaunchPlan:
    """The plan with the copies that this machine has from the beginning."""
    me = plan.layout.node_index
    seats = [(server, seat) for server, seat in enumerate(orders.copies) if seat is not None and seat.machine == me]
    made = [copy_plan(options, plan.processes, server, seat.endpoint) for server, seat in seats]
    is_worker = [process.role == "worker" for process in plan.processes]
    first_worker = is_worker.index(True) if True in is_worker else len(is_worker)
    return replace(plan, processes=(*plan.processes[:first_worker], *made, *plan.processes[first_worker:]))


def copy_plan(
    options: Options, beside: Sequence[ProcessPlan], server: int, endpoint: str, number: int = 1
) -> ProcessPlan:
    """A copy of a server, on the machine of the processes `beside`; the `number`-th that this machine has of it."""
    model = _model(beside, "server")
    host, _, port = endpoint.rpartition(":")
    own = {
        "TRAINING_ROLE": "PSERVER",
        "POD_IP": host.strip("[]"),
        "PADDLE_PORT": port,
        "PADDLE_PSERVER_ID": str(server),
        env.FLEET_COPY_OF.name: str(server),
    }
    log_name = f"serverlog.{server}.copy" + (str(number) if number > 1 else "")
    return replace(
        model,
        role="copy",
        index=server,
        endpoint=endpoint,
        command=COPY_COMMAND,
        variables=own | _common(model, "server"),
        log_path=Path(options.log_dir) / log_name,
    )


def moved_worker(options: Options, beside: Sequence[ProcessPlan], layout: JobLayout, worker: int) -> ProcessPlan:
    """A worker of a lost machine, on the machine of the processes `beside`."""
    model = _model(beside, "worker")
    endpoint = layout.workers[worker]
    first = next(number for number, one in enumerate(layout.workers) if one.host == endpoint.host)
    own = {
        "TRAINING_ROLE": "TRAINER",
        "PADDLE_TRAINER_ID": str(worker),
        "PADDLE_CURRENT_ENDPOINT": str(endpoint),
        "PADDLE_RANK_IN_NODE": str(worker - first),  # as the list of endpoints, which stays, has it
    }
    if (gpu := model.variables.get("FLAGS_selected_gpus")) is not None:
        own["FLAGS_selected_gpus"] = gpu
    return replace(
        model,
        role="worker",
        index=worker,
        endpoint=str(endpoint),
        command=command(options),
        variables=own | _common(model, "worker"),
        log_path=Path(options.log_dir) / f"workerlog.{worker}",
        layout=0,
    )


def _model(beside: Sequence[ProcessPlan], role: str) -> ProcessPlan:
    """A process of this machine, of the role if there is one, whose variables another one can have."""
    return next((process for process in beside if process.role == role), beside[0])


def _common(model: ProcessPlan, role: str) -> dict[str, str]:
    found = {
        name: value
        for name, value in model.variables.items()
        if name not in (*_OF_SERVERS, *_OF_WORKERS, "TRAINING_ROLE")
    }
    if (model.role == "worker") != (role == "worker"):
        found["FLEET_DEVICE"] = "cpu"
        found.pop("CUDA_VISIBLE_DEVICES", None)
    return found
