"""Ports that cannot be lost between the moment they are chosen and the moment a child listens on them."""

from __future__ import annotations

import errno
import socket
from types import TracebackType

from fleet.errors import EndpointError
from fleet.net.endpoint import Endpoint
from fleet.net.machine import LOOPBACK, local_addresses, own_address


class Hold:
    """A port that is ours until we close it, and that only our own processes can listen on.

    The socket is bound so that binding fails if anybody has the port; then it is opened for sharing, so that a child
    which asks for the same option (SO_REUSEPORT) can listen there while the hold stays. The hold itself does not
    listen. The kernel hands a held port to nobody who binds port 0, and refuses it to everybody who does not name both
    the port and the option.

    `plain=True` opens it to SO_REUSEADDR instead: for programs that are not ours, such as a script that calls
    `init_process_group("env://")`. See docs/adr/0002-ports.md.
    """

    def __init__(self, endpoint: Endpoint, *, plain: bool = False) -> None:
        address = own_address(endpoint.host)
        self._socket = socket.socket(family_of(address), socket.SOCK_STREAM)
        self._lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._take((address, endpoint.port))
            # To the kernel two sockets that reuse addresses are no conflict while neither listens, so holds exclude
            # each other by a name as well: an abstract socket's, which lives with us and in our network alone.
            self._lock.bind(f"\0fleet-hold-{address}-{self._socket.getsockname()[1]}")
        except OSError as error:
            self.close()
            raise EndpointError(_why_not_bound(endpoint, error)) from error
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR if plain else socket.SO_REUSEPORT, 1)
        self.endpoint = Endpoint(endpoint.host, self._socket.getsockname()[1])

    def _take(self, address: tuple[str, int]) -> None:
        """Bind the port so that nobody else has it, not even another hold."""
        if address[1] == 0:
            self._socket.bind(address)
            return
        # A port with a number may have old connections that time out, which only SO_REUSEADDR ignores; and only
        # listening for a moment makes the kernel check that no other socket listens there, and refuse the port to those
        # that reuse addresses from now on.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(address)
        self._socket.listen(1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        self._socket.shutdown(socket.SHUT_RD)

    @classmethod
    def any_port(cls, host: str = LOOPBACK, *, plain: bool = False) -> Hold:
        """Hold a port chosen by the operating system."""
        return cls(Endpoint(host, 0), plain=plain)

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()
        self._lock.close()

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def listen(endpoint: Endpoint, backlog: int = 1024) -> socket.socket:
    """Listen on an endpoint that this job may be holding; the error says why not."""
    address = own_address(endpoint.host)
    listener = socket.socket(family_of(address), socket.SOCK_STREAM)
    # The first passes a hold of ours, the second lets the next job have the port at once.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, endpoint.port))
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise EndpointError(_why_not_bound(endpoint, error)) from error
    return listener


def family_of(address: str) -> socket.AddressFamily:
    """The address family of a literal address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _why_not_bound(endpoint: Endpoint, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {endpoint.port} of {endpoint.host} is in use by another process; choose another port or end it"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{endpoint.host} is not an address of this machine; use one of: {', '.join(local_addresses())}"
    if error.errno == errno.EACCES:
        return f"port {endpoint.port} needs root; choose one above 1023"
    return f"cannot bind {endpoint}: {error.strerror or error}"
