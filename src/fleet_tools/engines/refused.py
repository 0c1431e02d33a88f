"""Options that an engine cannot carry over: one line each, with what to write instead. None is dropped in silence."""

from __future__ import annotations

from fleet.errors import UsageError
from fleet.launch.arguments.options import Options
from fleet_tools.engines.asked import EngineJob

WITH_FLEETRUN = frozenset({"slurm", "skypilot"})
"""Where every machine runs a fleetrun, which takes the options as they are."""

_OF_MACHINES = ("ips", "servers", "workers", "rank", "start_port")
_OF_FLEETRUN = ("scale", "chaos", "seed", "metrics_port", "dashboard", "trace", "tensorboard", "banner")


def refuse(job: EngineJob, engine: str) -> None:
    """UsageError for the first option that `engine` cannot carry over."""
    options = job.options
    how = f"with --render {engine}"
    if options.dry_run:
        raise UsageError(f"--dry-run shows a plan of this machine and --render one of {engine}; give one of them")
    for name in _OF_MACHINES:
        if getattr(options, name) is not None:
            number = "--nnodes" if name in ("ips", "rank") else "--server_num and --worker_num"
            raise UsageError(f"--{name}: {how} the engine chooses machines and ports; write {number} instead")
    if options.nnodes.is_range:
        raise UsageError(
            f"--nnodes {options.nnodes}: {how} the number of machines is fixed; write {options.nnodes.most}"
        )
    if options.gpus and options.gpus != tuple(range(len(options.gpus))):
        numbers = ",".join(map(str, options.gpus))
        raise UsageError(
            f"--gpus {numbers}: {how} the engine chooses the GPUs; write --nproc_per_node {len(options.gpus)}"
        )
    for role, limits in (("worker", options.worker_range), ("server", options.server_range)):
        if limits is not None and engine not in WITH_FLEETRUN:
            raise UsageError(f"--{role}_num {limits}: {how} there is one number of {role}s; give one")
    if options.is_server_job and None in (options.server_num, options.worker_num):
        raise UsageError(f"--server_num and --worker_num go together {how}; add the other one")
    if engine == "slurm-het" and not (options.is_server_job and options.durable is None):
        reason = (
            "has one kind of process" if not options.is_server_job else "needs fleetrun, which starts again who died"
        )
        raise UsageError(
            f"--render slurm-het: a {'durable' if options.durable else 'collective'} job {reason}; write slurm"
        )
    if engine in WITH_FLEETRUN:
        return
    if engine == "ray" and options.journal is not None:
        raise UsageError(f"--journal {options.journal}: {how} set FLEET_JOURNAL in the runtime environment instead")
    if options.is_server_job or engine in ("torchx", "ray"):
        _refuse_what_fleetrun_does(options, how)


def _refuse_what_fleetrun_does(options: Options, how: str) -> None:
    """Every server and every worker is a process of the engine, with no fleetrun above it."""
    for name in _OF_FLEETRUN:
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} is done by fleetrun, and {how} no fleetrun runs; leave it out")
    if options.master is not None:
        raise UsageError(f"--master {options.master}: {how} servers and workers find each other by name; leave it out")
    if options.standby is not None:
        raise UsageError(
            f"--standby {options.standby}: {how} a journal lies on a volume that outlives its machine; leave it out"
        )
    if options.tls:
        raise UsageError(f"--tls: {how} nobody mints certificates; set FLEET_TLS_CERT, _KEY and _CA in the artefact")
    if options.log_dir != "log":
        raise UsageError(f"--log_dir {options.log_dir}: {how} the engine keeps what processes print; leave it out")
    if options.max_restart and options.durable is None:
        raise UsageError(
            f"--max_restart {options.max_restart}: {how} a server that starts again has no rows; add --durable DIR"
        )
