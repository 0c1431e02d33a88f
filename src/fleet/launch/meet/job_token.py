"""The secret of a job: who makes it, and how two launchers see that they hold the same one without saying it.

It is never shown: not in the banner, a log, a command line or an error. Children find it in FLEET_JOB_TOKEN.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet import env
from fleet.errors import CommunicationError
from fleet.jobfiles.job_secret import job_secret

_MADE = "fleetrun-"
"""How a token begins that fleetrun made: one of an outer job must not become that of a job inside it."""
_NONCE_BYTES = 16


@dataclass(frozen=True)
class JobToken:
    """The token of one job, as one launcher knows it."""

    value: str = field(repr=False)
    is_given: bool
    """The user set it on this machine, and so on all of them: it proves who belongs to the job and never travels."""

    def seal(self, what: str, session: str, message: Mapping[str, Any]) -> str:
        """What only a holder of the token can say about `message`, valid for this `session` and this `what` alone."""
        text = "\0".join(("fleetrun meeting", what, session, json.dumps(message, sort_keys=True)))
        return hmac.new(self.value.encode(), text.encode(), "sha256").hexdigest()

    def fits(self, seal: object, what: str, session: str, message: Mapping[str, Any]) -> bool:
        """Whether `seal`, which came from another launcher, is ours for the same things."""
        try:
            expected = self.seal(what, session, message).encode()
        except RecursionError:  # a stranger's message, nested without end
            return False
        return isinstance(seal, str) and hmac.compare_digest(seal.encode(errors="replace"), expected)

    @classmethod
    def from_host(cls, value: object) -> JobToken:
        """What the host of a meeting without a given token has handed out; CommunicationError if it is not one."""
        if not (isinstance(value, str) and value.startswith(_MADE) and value.isascii() and value.isprintable()):
            raise CommunicationError("the meeting point handed out no token")
        return cls(value, is_given=False)


def own_token(environ: env.Environ | None = None) -> JobToken:
    """The user's FLEET_JOB_TOKEN or FLEET_JOB_TOKEN_FILE, else a new one.

    A fleetrun inside a job finds that job's token in its environment. The user's it keeps, one that was made it does
    not: jobs are strangers to each other unless the user says otherwise.
    """
    given = job_secret(environ)
    is_outer = given is not None and given.startswith(_MADE) and env.FLEET_JOB_ID.get(environ) is not None
    if given is None or is_outer:
        return JobToken(_MADE + secrets.token_hex(32), is_given=False)
    return JobToken(given, is_given=True)


def new_nonce() -> str:
    """A word that was never said before, so that nothing overheard can be said again."""
    return secrets.token_hex(_NONCE_BYTES)


def is_nonce(value: object) -> bool:
    """Whether what came from another launcher looks like a nonce."""
    return isinstance(value, str) and len(value) == 2 * _NONCE_BYTES and value.isascii() and value.isalnum()
