"""Certificates of a job: minted from its token by every launcher for its own machine, so that no key ever travels.

The key of the job's certificate authority is derived from the token. Launchers that share a token therefore have the
same authority without a word to each other, and whoever has the token could mint, too. The authority's key is never
written; that of a machine is, for its processes, into a private folder that goes with the job.
"""

import os
import shutil
import tempfile
from pathlib import Path

from fleet import env
from fleet.errors import NotSupportedError, UsageError
from fleet.launch.arguments.options import Options

JOB_NAME = "fleet-job"
"""What every certificate of a job carries: endpoints may be any addresses."""
_FILES = (env.FLEET_TLS_CERT, env.FLEET_TLS_KEY, env.FLEET_TLS_CA)
_VARIABLES = (*_FILES, env.FLEET_TLS_NAME)


def has_own_files() -> bool:
    """Whether the user has set certificates; those that an outer fleetrun minted for its own job are not the user's."""
    return env.FLEET_TLS_NAME.text() != JOB_NAME and any(one.text() is not None for one in _FILES)


def refuse_tls(options: Options) -> None:
    """Raise for options and variables about TLS that cannot work, seen before anything is started."""
    if options.tls and not options.is_server_job:
        raise NotSupportedError(
            "--tls: a collective job talks by Gloo or NCCL, which are not encrypted; leave it out, or use a network "
            "of your own"
        )
    if options.tls is not False and has_own_files():
        for one in _FILES:
            path = one.require("FLEET_TLS_CERT, FLEET_TLS_KEY and FLEET_TLS_CA go together: set all three or none")
            if not os.access(path, os.R_OK):
                raise UsageError(f"{one.name} names {path}, which cannot be read")
    if options.tls:
        refuse_unminted(options)


def refuse_unminted(options: Options) -> None:
    """UsageError if certificates would have to be minted and the package that does this is not installed."""
    if options.tls is False or has_own_files():
        return
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise UsageError(
            "TLS between the machines of a job needs the package cryptography: pip install 'torch-fleet[tls]'; or "
            "leave the job's traffic open with --no-tls"
        ) from None


def terms(options: Options) -> str:
    """What the launchers of several machines must agree about."""
    if options.tls is False:
        return ", --no-tls"
    return ", own certificates" if has_own_files() else ""


def private_folder(job_id: str) -> Path:
    """Where the key of this machine's processes lies while the job runs."""
    return Path(tempfile.gettempdir(), f"fleet-{os.getuid()}-{job_id.rpartition('/')[2]}")


def remove_private_folder(job_id: str) -> None:
    """Leave no key behind."""
    shutil.rmtree(private_folder(job_id), ignore_errors=True)


def variables(options: Options, num_nodes: int, token: str, job_id: str) -> dict[str, str]:
    """What the processes of this machine need for TLS: by default where a job with servers spans machines."""
    # Every stranger that knocks without TLS would have gRPC write a line into the log of a server.
    quiet = {"GRPC_VERBOSITY": env.inherited().get("GRPC_VERBOSITY", "ERROR")}
    if options.tls is False or not options.is_server_job:
        return _unset()
    if has_own_files():
        return quiet  # the processes inherit the rest
    if options.tls or num_nodes > 1:
        return quiet | _mint(token, private_folder(job_id))
    return _unset()


def _unset() -> dict[str, str]:
    """What the user or an outer job has set and does not count here: an empty variable is as good as none."""
    return {one.name: "" for one in _VARIABLES if one.is_set()}


def _mint(token: str, folder: Path) -> dict[str, str]:
    """Write the files of this machine; returns the variables that name them."""
    from fleet.launch.tls.authority import Authority

    authority = Authority.from_token(token)
    certificate, key = authority.issue(JOB_NAME)
    folder.mkdir(mode=0o700, exist_ok=True)  # there already in a later round of the same job
    found = folder.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UsageError(f"{folder} is not private; remove it")
    named = {env.FLEET_TLS_NAME.name: JOB_NAME}
    for variable, text in zip(_FILES, (certificate, key, authority.certificate), strict=True):
        path = folder / f"{variable.name.rpartition('_')[2].lower()}.pem"
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text)
        named[variable.name] = str(path)
    return named
