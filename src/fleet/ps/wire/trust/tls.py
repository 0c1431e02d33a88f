"""Mutual TLS between workers and servers: both present a certificate, and both check that of the other.

FLEET_TLS_CERT, FLEET_TLS_KEY and FLEET_TLS_CA name the files; `fleetrun` mints them for a job, or they are the user's
own. A server's certificate must carry FLEET_TLS_NAME or, where that is unset, the host of its endpoint.
"""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from fleet import env
from fleet.errors import UsageError, VariableError

_FILES = (env.FLEET_TLS_CERT, env.FLEET_TLS_KEY, env.FLEET_TLS_CA)


@dataclass(frozen=True)
class Tls:
    """The certificate that a process shows to others, and how it judges theirs."""

    certificate: bytes
    key: bytes = field(repr=False)
    authority: bytes
    """Certificates of others must be signed by this one."""
    name: str | None = None
    """What the certificate of a server must carry; None: the host of its endpoint."""

    @classmethod
    def from_environment(cls, environ: env.Environ | None = None) -> Tls | None:
        """What the variables say; None where none is set, VariableError where some are or a file cannot be read."""
        if all(variable.text(environ) is None for variable in _FILES):
            return None
        why = "FLEET_TLS_CERT, FLEET_TLS_KEY and FLEET_TLS_CA go together: set all three or none"
        paths = [one.require(why, environ) for one in _FILES]
        certificate, key, authority = map(_read, _FILES, paths)
        _refuse_odd(*paths)
        return cls(certificate, key, authority, env.FLEET_TLS_NAME.get(environ))

    def for_server(self) -> grpc.ServerCredentials:
        """The credentials of a server for gRPC."""
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)], root_certificates=self.authority, require_client_auth=True
        )

    def for_client(self) -> grpc.ChannelCredentials:
        """The credentials of a worker for gRPC."""
        return grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)

    def load_into(self, context: ssl.SSLContext) -> None:
        """Have `ssl` show the same certificate, which it takes from files only."""
        with tempfile.NamedTemporaryFile() as file:  # nobody else can read it
            file.write(self.key + b"\n" + self.certificate)
            file.flush()
            context.load_cert_chain(file.name)

    @property
    def client_options(self) -> tuple[tuple[str, str], ...]:
        """The name that a worker looks for, where it is not the host that it calls."""
        return (("grpc.ssl_target_name_override", self.name),) if self.name else ()


def _read(variable: env.EnvVariable[str], path: str) -> bytes:
    try:
        text = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise VariableError(variable.name, f"names {path}, which cannot be read: {reason}") from None
    if b"-----BEGIN " not in text:
        raise VariableError(variable.name, f"names {path}, which is no PEM file")
    return text


def _refuse_odd(certificate: str, key: str, authority: str) -> None:
    """UsageError if the files cannot be used together: gRPC says little about that, and only in its log."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, lambda: "")
        context.load_verify_locations(authority)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the files of FLEET_TLS_CERT, FLEET_TLS_KEY and FLEET_TLS_CA cannot be used: {error}"
        ) from None
