"""The secret that the processes of one job share, as it was given to this one."""

from pathlib import Path

from fleet import env
from fleet.errors import VariableError


def job_secret(environ: env.Environ | None = None) -> str | None:
    """The secret of the job, from FLEET_JOB_TOKEN or the file of FLEET_JOB_TOKEN_FILE; None if neither is set."""
    path = env.FLEET_JOB_TOKEN_FILE.get(environ)
    if (given := env.FLEET_JOB_TOKEN.get(environ)) is not None or path is None:
        return given
    try:
        found = env.FLEET_JOB_TOKEN.get({env.FLEET_JOB_TOKEN.name: Path(path).read_text()})
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise VariableError(env.FLEET_JOB_TOKEN_FILE.name, f"names {path}, which cannot be read: {reason}") from None
    if found is None:
        raise VariableError(env.FLEET_JOB_TOKEN_FILE.name, f"names {path}, which is empty; write the secret into it")
    return found
