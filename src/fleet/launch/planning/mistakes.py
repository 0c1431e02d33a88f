"""Mistakes that can be seen without touching anything: contradictions, a missing script, an unusable folder."""

from pathlib import Path

from fleet.errors import NotSupportedError, UsageError
from fleet.launch.arguments.options import Options
from fleet.launch.arguments.values import check_folder
from fleet.launch.planning.durable_job import refuse_durable
from fleet.launch.planning.script import refuse_script
from fleet.launch.planning.server_needs import refuse_counts
from fleet.launch.planning.standby_job import refuse_standby
from fleet.launch.tls.certificates import refuse_tls


def refuse_mistakes(options: Options) -> None:
    """Raise for the first mistake of the arguments."""
    refuse_counts(options)
    refuse_contradictions(options)
    refuse_tls(options)
    refuse_standby(options)
    refuse_durable(options)
    refuse_script(options)
    check_folder(Path(options.log_dir))


def refuse_contradictions(options: Options) -> None:
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
    has_place = options.master is not None or options.ips is not None or is_listed or options.render is not None
    if options.nnodes.most > 1 and not has_place:
        raise UsageError(f"--nnodes {options.nnodes} needs --master HOST:PORT, where the machines meet, or --ips")
    if options.ips is not None and options.nnodes.most not in (1, len(options.ips)):
        raise UsageError(f"--nnodes {options.nnodes}: --ips names {len(options.ips)} machines; leave --nnodes out")
    if options.rank is not None and options.master is None and options.ips is None:
        raise UsageError(f"--rank {options.rank} goes with --master or --ips; leave it out")
    if options.dry_run and options.master is not None:
        raise UsageError("--dry-run cannot show a job that meets at --master: other machines' ports are not known yet")
    if options.banner and options.quiet:
        raise UsageError("--banner shows more and --quiet less than usual; give one of them")
    _refuse_ranges(options)
    _refuse_chaos(options)
    if options.selfcheck and options.script:
        raise UsageError(f"--selfcheck takes the place of a script; leave out {options.script}")


def _refuse_ranges(options: Options) -> None:
    """Where the number of workers, or of servers, cannot change."""
    if options.scale is not None and options.worker_range is None:
        raise UsageError(f"--scale {options.scale!r}: there is one number of workers; give A:B, as --worker_num 1:8")
    if options.scale is not None and options.nnodes.most > 1:
        raise NotSupportedError(f"--scale {options.scale!r}: it looks at one machine's servers; use fleetrun scale")
    for role, limits in (("worker", options.worker_range), ("server", options.server_range)):
        if limits is None:
            continue
        given = f"--{role}_num {limits}"
        if options.durable is None:
            raise UsageError(
                f"{given}: processes come and go in a durable job only; add --durable DIR, or give one number"
            )
        if options.servers is not None or options.workers is not None:
            raise NotSupportedError(f"{given}: --servers and --workers name every process; give one number")
        if options.nnodes.most > 1 and role == "server":
            raise NotSupportedError(f"{given}: the number of servers changes on one machine only; give one number")
        if options.standby is not None:
            raise NotSupportedError(f"{given}: not while servers have copies; leave --standby out, or give one number")


def _refuse_chaos(options: Options) -> None:
    """Faults that could strike nobody, and a seed without any."""
    if options.chaos is not None:
        options.chaos.refuse_useless(options)
    elif options.seed is not None:
        raise UsageError(
            f"--seed {options.seed} goes with --chaos; leave it out, or write it after the script to pass it on"
        )


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
