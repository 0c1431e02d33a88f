"""Which addresses and interfaces are this machine's, and which of them others reach."""

import ipaddress
import socket
from collections.abc import Sequence

from fleet.errors import EndpointError

LOOPBACK = "127.0.0.1"


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
    # Reserved for documents, so no route is special to it.
    if (address := address_toward("192.0.2.1")) is not None:
        return address
    for address in local_addresses():
        if not is_loopback(address) and not ipaddress.ip_address(address).is_link_local:
            return address
    raise EndpointError("this machine has no address that other machines reach; connect it to a network")


def interface_of(host: str) -> str | None:
    """The network interface that carries `host`, or None if it is not an address of this machine."""
    if is_loopback(host):
        return "lo"
    return next((name for name, address in _addresses_by_interface() if address == host), None)


def means_loopback(host: str) -> str | None:
    """What `host` resolves to, if it is a name that leads to loopback alone, as /etc/hosts has it for own names.

    >>> means_loopback("localhost"), means_loopback("127.0.0.1")  # loopback by intention
    (None, None)
    """
    if is_loopback(host):
        return None
    addresses = resolve(host)
    return addresses[0] if addresses and all(map(is_loopback, addresses)) else None


def is_local(host: str) -> bool:
    """Whether `host` (an address or a name) is this machine; a name that means loopback here is."""
    if is_loopback(host):
        return True
    addresses = (host, *resolve(host))
    return any(map(is_loopback, addresses)) or any(address in local_addresses() for address in addresses)


def own_address(host: str) -> str:
    """The address to bind for `host`, which stands for this machine.

    A name that means loopback here (as in many /etc/hosts) means something else on other machines, so it is bound on
    every interface. `localhost` means loopback everywhere.
    """
    if host == "localhost":
        return LOOPBACK
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        mine = [address for address in resolve(host) if not is_loopback(address) and address in local_addresses()]
        return mine[0] if mine else "0.0.0.0"


def address_toward(host: str) -> str | None:
    """This machine's address on the way to `host`; nothing is sent to find it."""
    for address in resolve(host):
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                # Connecting a datagram socket only makes the kernel choose a route, and with it our address.
                probe.connect((address, 9))
                return str(probe.getsockname()[0])
            except OSError:
                continue
    return None


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
