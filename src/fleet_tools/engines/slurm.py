"""Slurm: a job script with one fleetrun on every node, or with servers and workers on partitions of their own."""

from __future__ import annotations

import shlex

from fleet_tools.engines.asked import EngineJob
from fleet_tools.engines.yaml_text import comment

_HEAD = """#!/bin/bash
{headline}#SBATCH --job-name={name}
#SBATCH --output={name}-%j.out
{resources}
set -euo pipefail
umask 077
export FLEET_JOB_TOKEN=$(openssl rand -hex 32)  # made when the job starts; it stands in no file
export SRUN_CPUS_PER_TASK=${{SLURM_CPUS_PER_TASK:-1}}
"""
_NODES = """#SBATCH --nodes={nodes} --ntasks-per-node={tasks}
#SBATCH --cpus-per-task={cpus}   # choose
##SBATCH --partition={partition}   # choose, and take away one #
##SBATCH --mem=0   # choose: all memory of a node"""
_RESOLVED = """for host in {hosts}; do
    if ! getent hosts "$host" >/dev/null; then
        echo "{name}: the name of node $host leads to no address here; ask who runs the cluster" >&2
        exit 2
    fi
done
"""
_SIGNAL = """
#SBATCH --requeue --open-mode=append
{mark}#SBATCH --signal=B:USR1@120   # seconds before the time limit{why}"""
_ONE = """first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
{resolved}told= code=138
trap 'told=yes; kill -USR1 "$step"' USR1  # save and stop
srun --kill-on-bad-exit=1 {command} &
step=$!
while [ "$code" -eq 138 ]; do  # a signal has come meanwhile
    wait "$step" && code=0 || code=$?
done
if [ -n "$told" ] && [ "$code" -ne 0 ] && [ "$code" -ne 2 ]; then
    exec scontrol requeue "$SLURM_JOB_ID"  # goes on where it was
fi
exit "$code"
"""
_PLACES = '--master "$first:{port}" --nnodes "$SLURM_NNODES"'
_HETEROGENEOUS = """
hosts=($(scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_0"))
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_1" | head -n 1)  # where workers meet
{resolved}port=$((20000 + SLURM_JOB_ID % 10000))
FLEET_SERVERS=
for ((n = 0; n < {servers}; n++)); do
    FLEET_SERVERS+=${{FLEET_SERVERS:+,}}${{hosts[n / {per_node}]}}:$((port + n % {per_node}))
done
export FLEET_SERVERS FLEET_WORKERS={workers} MASTER_PORT=$((port + {servers}))

srun --het-group=0 --kill-on-bad-exit=1 --output="{name}-$SLURM_JOB_ID-server-%t.out" \\
    bash -c 'FLEET_ROLE=server FLEET_INDEX=$SLURM_PROCID exec {server}' &
servers=$!
trap 'kill $servers 2>/dev/null || true' EXIT
srun --het-group=1 --kill-on-bad-exit=1 --output="{name}-$SLURM_JOB_ID-worker-%t.out" \\
    bash -c 'FLEET_ROLE=worker FLEET_INDEX=$SLURM_PROCID{device} exec {script}'
wait $servers
trap - EXIT
"""


def render(job: EngineJob) -> str:
    """A script for `sbatch`: Slurm gives nodes, fleetrun their processes."""
    resources = _nodes(job.num_nodes, 1, 16, "compute", _gpus(job)) + _SIGNAL.format(
        mark="" if job.is_durable else "#",
        why="" if job.is_durable else "; choose where there is a fleet.Checkpoint, and take away one #",
    )
    command = shlex.join(job.fleetrun()[1:])
    places = f"{_PLACES.format(port=job.meeting_port)} " if job.num_nodes > 1 else ""
    return _head(job, resources) + _ONE.format(
        resolved=_RESOLVED.format(name=job.name, hosts='"$first"'),
        command=f"fleetrun {places}{command}",
    )


def render_heterogeneous(job: EngineJob) -> str:
    """A script for `sbatch` with two components: servers where memory is, workers where they compute."""
    per_node = job.options.server_num or 0
    servers = _nodes(job.num_nodes, per_node, 4, "memory", job.server_gpus)
    workers = _nodes(job.num_nodes, job.options.worker_num or 0, 4, "compute", job.worker_gpus)
    return _head(job, f"{servers}\n#SBATCH hetjob\n{workers}") + _HETEROGENEOUS.format(
        name=job.name,
        resolved=_RESOLVED.format(name=job.name, hosts='"${hosts[@]}" "$MASTER_ADDR"'),
        servers=job.num_servers,
        per_node=per_node,
        workers=job.num_workers,
        server=shlex.join(job.server),
        script=shlex.join(job.script).replace("'", "'\\''"),
        device=" FLEET_DEVICE=cuda" if job.worker_gpus else "",
    )


def _head(job: EngineJob, resources: str) -> str:
    return _HEAD.format(headline=comment(job.headline), name=job.name, resources=resources)


def _nodes(nodes: int, tasks: int, cpus: int, partition: str, gpus: int) -> str:
    found = _NODES.format(nodes=nodes, tasks=tasks, cpus=cpus, partition=partition)
    return found + (f"\n#SBATCH --gpus-per-task={gpus}" if gpus else "")


def _gpus(job: EngineJob) -> int:
    """GPUs of a node, whose one task is fleetrun."""
    each = job.worker_gpus * (job.options.worker_num or 1) if job.has_servers else job.worker_gpus
    return max(each, job.server_gpus)
