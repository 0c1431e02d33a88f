"""Why a server hangs up on a process that it has never answered: one of them speaks TLS, or refuses a certificate.

gRPC says no more than "Socket closed" then, as of a server that dies, which is worth another try; this is not.
"""

import socket
import ssl

from fleet.net import Endpoint
from fleet.ps.wire.trust.tls import Tls

_PATIENCE_S = 5.0
_REFUSED = "refuses the certificate of this process (FLEET_TLS_CERT): another authority signed it; is it of this job?"
_SET = "FLEET_TLS_CERT, FLEET_TLS_KEY and FLEET_TLS_CA"


def why_closed(endpoint: str, tls: Tls | None) -> str | None:
    """What a process that shows `tls`, or speaks no TLS at all, does wrong there; None if nothing can be told."""
    try:
        where = Endpoint.parse(endpoint)
        if tls is None:
            return _speaks_tls(where)
        return _REFUSED if all(_hangs_up(where, tls) for _ in range(2)) else None  # once, it may just be dying
    except (OSError, ValueError):
        return None


def why_failed(text: str, tls: Tls | None) -> str | None:
    """The same as `why_closed` where gRPC gives a reason, `text`."""
    if "handshake failed" in text and "WRONG_VERSION_NUMBER" in text:
        return f"does not speak TLS, and this process does; set {_SET} on every process or on none (fleetrun --tls)"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "shows a certificate that another authority signed than this process's FLEET_TLS_CA; is it of this job?"
    if "Hostname Verification" in text:
        name = "FLEET_TLS_NAME" if tls is not None and tls.name else "the host of its endpoint (or set FLEET_TLS_NAME)"
        return f"shows a certificate without the name that it should carry: {name}"
    return None


def _connected(where: Endpoint) -> socket.socket:
    return socket.create_connection((where.host, where.port), timeout=_PATIENCE_S)


def _speaks_tls(where: Endpoint) -> str:
    """The reason, if the server speaks TLS; OSError otherwise."""
    with _connected(where) as plain, _context().wrap_socket(plain):
        pass
    return f"speaks TLS, and this process does not; set {_SET}, as fleetrun --tls does for every process of a job"


def _hangs_up(where: Endpoint, tls: Tls) -> bool:
    """Whether the server hangs up once it has seen our certificate; one that accepts it speaks first."""
    context = _context()
    tls.load_into(context)
    with _connected(where) as plain, context.wrap_socket(plain) as secure:
        return secure.recv(1) == b""


def _context() -> ssl.SSLContext:
    """A context that accepts every server: it only finds out what a server is, and sends it nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context
