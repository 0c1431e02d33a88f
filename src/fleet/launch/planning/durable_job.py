"""`--durable` and `--journal`: what cannot work, and what every process of such a job is told."""

from pathlib import Path

from fleet import env
from fleet.errors import UsageError
from fleet.job.description import DEFAULT_RECOVERY_S
from fleet.launch.arguments.options import Options
from fleet.launch.arguments.values import check_folder


def refuse_durable(options: Options) -> None:
    """Raise for what cannot work, without touching anything."""
    if options.durable is None:
        if options.journal is not None:
            raise UsageError(f"--journal {options.journal} goes with --durable DIR, where the journal is kept; add it")
        return
    if not options.durable:
        raise UsageError("--durable needs a folder, such as --durable kept")
    if not options.is_server_job:
        raise UsageError(
            f"--durable {options.durable}: a collective job has no servers that could keep a journal; leave it out "
            "(or unset FLEET_DURABLE), and use fleet.Checkpoint with --max_restart"
        )
    _journal(options)
    recovery_s()  # a VariableError, where it is malformed
    check_folder(Path(options.durable), "--durable")


def durable_variables(options: Options, folder: Path, environ: env.Environ) -> dict[str, str]:
    """What every process of the job is told, started from `folder`; nothing where it is not durable."""
    if options.durable is None:
        return {}
    found = {
        env.FLEET_DURABLE.name: str(folder / options.durable),
        env.FLEET_JOURNAL.name: _journal(options, environ),
    }
    if options.standby is not None:
        found[env.FLEET_STANDBY.name] = options.standby.upper()
    if env.FLEET_RECOVERY_TIMEOUT_S.text(environ) is None:
        found[env.FLEET_RECOVERY_TIMEOUT_S.name] = f"{DEFAULT_RECOVERY_S:g}"
    return found


def recovery_s() -> float:
    """How long a process may take to be back."""
    return env.FLEET_RECOVERY_TIMEOUT_S.get() or DEFAULT_RECOVERY_S


def _journal(options: Options, environ: env.Environ | None = None) -> str:
    is_inside_a_job = env.FLEET_JOB_ID.get(environ) is not None  # whose journal is not this one's
    given = None if is_inside_a_job else env.FLEET_JOURNAL.get(environ)
    if options.journal is None and given == "OFF":
        raise UsageError("FLEET_JOURNAL=off: a durable job has a journal; unset it, or leave out --durable")
    return (options.journal or given or "os").upper()
