"""The token of this process: the job's or, between processes of one user on one machine, that of the user.

Servers that were started by hand on a loopback address, with no FLEET_JOB_TOKEN, would serve every user of the machine.
So each user has a token of his own there, in a file that nobody else can read: made when it is first needed, and the
same for all processes of that user.
"""

import contextlib
import os
import secrets
import stat
import tempfile
from pathlib import Path

from fleet.errors import UsageError
from fleet.jobfiles.job_secret import job_secret
from fleet.net import Endpoint, is_loopback, own_address

_NAME = "loopback-token"


def token_for(endpoint: Endpoint) -> str | None:
    """The token that a server there asks for: FLEET_JOB_TOKEN, else on loopback the user's; None: it asks for none."""
    if (given := job_secret()) is not None:
        return given
    return user_token() if is_loopback(endpoint.host) else None


def check_exposure(endpoint: Endpoint, token: str | None, allow_anonymous: bool) -> None:
    """UsageError if other machines could reach a server that asks nobody for a token."""
    if not (token or allow_anonymous or is_loopback(own_address(endpoint.host))):
        raise UsageError(
            f"a server on {endpoint} would serve everybody who can reach this address; set FLEET_JOB_TOKEN to the same "
            "secret on every process, or pass allow_anonymous=True (--allow_anonymous)"
        )


def user_token() -> str:
    """This user's token on this machine; UsageError if its file can be read by others."""
    with contextlib.suppress(OSError, RuntimeError):  # no home, or one that cannot be written
        return _read_or_make(Path.home() / ".cache" / "fleet")
    folder = Path(tempfile.gettempdir(), f"fleet-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise UsageError(f"{folder} belongs to another user; set FLEET_JOB_TOKEN to the same on every process")
        return _read_or_make(folder)
    except OSError as error:
        raise UsageError(
            f"no token of this user can be kept in {folder} ({error.strerror}); set FLEET_JOB_TOKEN to the same on "
            "every process"
        ) from None


def _read_or_make(folder: Path) -> str:
    path = folder / _NAME
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    folder.mkdir(parents=True, exist_ok=True)
    # Written whole before it has its name: two processes that start at once read the same one.
    file, draft = tempfile.mkstemp(dir=folder, prefix=f"{_NAME}.")
    try:
        with open(file, "w") as writing:
            writing.write(f"{secrets.token_hex(32)}\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)
    return _read(path)


def _read(path: Path) -> str:
    with open(path) as file:
        found = os.fstat(file.fileno())
        text = file.read().strip()
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise UsageError(f"{path} can be read or changed by others; remove it, and a new one is made")
    if not (len(text) >= 32 and text.isascii() and text.isprintable()):
        raise UsageError(f"{path} holds no token; remove it, and a new one is made")
    return text
