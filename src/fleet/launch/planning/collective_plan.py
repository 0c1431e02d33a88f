"""The plan of a collective job: workers alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fleet.launch.arguments.options import Options
from fleet.launch.planning.common import common_variables, join
from fleet.launch.planning.layout import JobLayout
from fleet.launch.planning.machine import Machine
from fleet.launch.planning.plan import LaunchPlan, ProcessPlan
from fleet.launch.planning.script import command


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
