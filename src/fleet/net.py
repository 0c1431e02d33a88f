"""Endpoints, ports that cannot be lost, and which address and interface belong to this machine.

Depends on nothing but the errors, so that the launcher, the roles and the servers share one idea of an endpoint.
"""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType

from fleet.errors import EndpointError

LOOPBACK = "127.0.0.1"

_HOST_NAME = re.compile(r"^(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*\.?$")
_LOOKS_LIKE_IPV4 = re.compile(r"^[0-9.]+$")


@dataclass(frozen=True, order=True)
class Endpoint:
    """A host and a port; prints as `HOST:PORT` (`[HOST]:PORT` for IPv6).

    >>> Endpoint.parse("10.0.0.1:6170")
    Endpoint(host='10.0.0.1', port=6170)
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str, what: str = "endpoint") -> Endpoint:
        """Read `HOST:PORT`; `what` names the option or variable in the error."""
        host, separator, port = text.strip().rpartition(":")
        if not separator or not host:
            raise EndpointError(f"{what} {text!r} has no port; write it as HOST:PORT, for example 10.0.0.1:6170")
        if not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
            raise EndpointError(f"{what} {text!r} has port {port!r}; a port is a number from 1 to 65535")
        return cls(parse_host(host, what), int(port))


def parse_host(text: str, what: str = "host") -> str:
    """Check one host name or address, without asking the network."""
    host = text.strip().removeprefix("[").removesuffix("]")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        if _LOOKS_LIKE_IPV4.match(host) or not _HOST_NAME.match(host):
            raise EndpointError(
                f"{what} {text!r} is neither an IP address nor a host name; write it like 10.0.0.1 or node-1"
            ) from None
    return host


def parse_hosts(text: str, what: str = "hosts") -> tuple[str, ...]:
    """Read a comma list of distinct hosts."""
    hosts = tuple(parse_host(part, what) for part in _split(text, what))
    refuse_duplicates(hosts, what)
    return hosts


def parse_endpoints(text: str, what: str = "endpoints") -> tuple[Endpoint, ...]:
    """Read a comma list of distinct endpoints."""
    endpoints = tuple(Endpoint.parse(part, what) for part in _split(text, what))
    refuse_duplicates(endpoints, what)
    return endpoints


def _split(text: str, what: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if "" in parts:
        raise EndpointError(f"{what} {text!r} has an empty item; write a comma list without gaps")
    return parts


def refuse_duplicates(items: Iterable[object], what: str) -> None:
    """Raise if an item stands twice."""
    seen: set[object] = set()
    for item in items:
        if item in seen:
            raise EndpointError(f"{what} names {item} twice; each process needs an endpoint of its own")
        seen.add(item)


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
        self._socket = socket.socket(_family(endpoint), socket.SOCK_STREAM)
        try:
            self._take(endpoint)
        except OSError as error:
            self._socket.close()
            raise EndpointError(_why_not_bound(endpoint, error)) from error
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR if plain else socket.SO_REUSEPORT, 1)
        self.endpoint = Endpoint(endpoint.host, self._socket.getsockname()[1])

    def _take(self, endpoint: Endpoint) -> None:
        """Bind the port so that nobody else has it, not even another hold."""
        address = (endpoint.host, endpoint.port)
        if endpoint.port == 0:
            self._socket.bind(address)
            return
        # A port with a number may have old connections that time out, which only SO_REUSEADDR ignores; and only
        # listening for a moment makes the kernel check that no other socket that reuses addresses has the port, and
        # remember that none may from now on.
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

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def listen(endpoint: Endpoint, backlog: int = 1024) -> socket.socket:
    """Listen on an endpoint that this job may be holding; the error says why not."""
    listener = socket.socket(_family(endpoint), socket.SOCK_STREAM)
    # The first passes a hold of ours, the second lets the next job have the port at once.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((endpoint.host, endpoint.port))
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise EndpointError(_why_not_bound(endpoint, error)) from error
    return listener


def _family(endpoint: Endpoint) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET


def _why_not_bound(endpoint: Endpoint, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {endpoint.port} of {endpoint.host} is in use by another process; choose another port or end it"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{endpoint.host} is not an address of this machine; use one of: {', '.join(local_addresses())}"
    if error.errno == errno.EACCES:
        return f"port {endpoint.port} needs root; choose one above 1023"
    return f"cannot bind {endpoint}: {error.strerror or error}"


def _addresses_by_interface() -> list[tuple[str, str]]:
    import psutil

    return [
        (interface, address.address.split("%")[0])
        for interface, addresses in psutil.net_if_addrs().items()
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    ]


def local_addresses() -> tuple[str, ...]:
    """Every address of this machine, loopback last."""
    addresses = {address for _, address in _addresses_by_interface()}
    return tuple(sorted(addresses, key=lambda address: (ipaddress.ip_address(address).is_loopback, address)))


def outward_address() -> str:
    """The address of this machine that other machines reach; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket only makes the kernel choose a route, and with it our address.
            # 192.0.2.1 is reserved for documents, so no route is special to it.
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            pass
    for address in local_addresses():
        if not is_loopback(address) and not ipaddress.ip_address(address).is_link_local:
            return address
    raise EndpointError("this machine has no address that other machines reach; connect it to a network")


def interface_of(host: str) -> str | None:
    """The network interface that carries `host`, or None if it is not an address of this machine."""
    return next((name for name, address in _addresses_by_interface() if address == host), None)


def is_local(host: str) -> bool:
    """Whether `host` (an address or a name) is this machine."""
    addresses = local_addresses()
    return host in addresses or any(address in addresses for address in resolve(host))


def resolve(host: str) -> tuple[str, ...]:
    """The addresses of a host name; empty if it has none."""
    try:
        found: Sequence[tuple[object, ...]] = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))  # type: ignore[index]


def is_loopback(host: str) -> bool:
    """Whether `host` can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
