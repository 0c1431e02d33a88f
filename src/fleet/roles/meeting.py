"""MASTER_ADDR and MASTER_PORT: the words every launcher shares for where the workers meet."""

from __future__ import annotations

from fleet import env
from fleet.env import Environ
from fleet.errors import VariableError
from fleet.net import Endpoint


def master(environ: Environ | None) -> Endpoint | None:
    """The endpoint, or None unless both variables are set: one alone proves nothing."""
    host, port = env.MASTER_ADDR.get(environ), env.MASTER_PORT.get(environ)
    return None if host is None or port is None else master_endpoint(host, port)


def refuse_half(environ: Environ | None) -> None:
    """Raise if one variable is set without the other, for sources that cannot do with half."""
    host, port = env.MASTER_ADDR, env.MASTER_PORT
    for given, missing in ((host, port), (port, host)):
        if given.text(environ) and not missing.text(environ):
            raise VariableError(
                missing.name,
                f"is not set; {given.name}={given.text(environ)} is one half of where the workers meet",
            )


def master_endpoint(host: str, port: int) -> Endpoint:
    """A checked endpoint whose error names the variables."""
    return Endpoint.parse(f"{host}:{port}", "MASTER_ADDR:MASTER_PORT")
