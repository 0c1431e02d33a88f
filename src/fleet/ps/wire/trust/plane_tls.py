"""TLS for the data plane: the certificates of the job, and OpenSSL wherever this process can find it.

The native core brings no OpenSSL along. It takes the one that Python's own `ssl` is linked with or, where that is built
in and cannot be reached, the system's.
"""

import logging
from functools import cached_property

from fleet import _native
from fleet.ps.wire.trust.tls import Tls

SYSTEM_LIBRARIES = ("libssl.so.3", "libssl.so.1.1")

_log = logging.getLogger(__name__)


def libraries() -> list[str]:
    """Where to look for OpenSSL, the best first."""
    import _ssl

    own: str | None = getattr(_ssl, "__file__", None)  # functions are found in whatever it is linked with
    return [*([] if own is None else [own]), *SYSTEM_LIBRARIES]


class PlaneTls:
    """What a process shows to others and asks of them on the data plane; one for all its connections."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls

    @cached_property
    def native(self) -> _native.PlaneTls | None:
        """The settings for native code; None, and one line in the log, without OpenSSL: then gRPC does everything."""
        try:
            return _native.PlaneTls(libraries(), self._tls.certificate, self._tls.key, self._tls.authority)
        except RuntimeError as error:
            _log.warning("no TLS on the data plane (%s): pulls and pushes go by gRPC, which is slower", error)
            return None

    def connect(self, host: str, address: str, port: int, token: bytes, timeout_s: float) -> _native.PlaneClient | None:
        """A connection to a server of this host, by one of its addresses; None where TLS cannot be had here.

        An OSError or a RuntimeError says why there is none.
        """
        if self.native is None:
            return None
        return _native.PlaneClient.tls(address, port, self.native, self._tls.name or host, token, timeout_s)
