"""Which network interface leads to another machine; loopback never does."""

import logging
import socket
from dataclasses import dataclass
from typing import Any

from fleet.errors import EndpointError
from fleet.net.machine import address_toward, is_loopback, means_loopback, outward_address

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Interface:
    """A network interface of this machine that has an address."""

    name: str
    addresses: tuple[str, ...]
    is_up: bool = True
    """Whether it is switched on; its cable may be unplugged."""

    def __str__(self) -> str:
        return f"{self.name} ({self.addresses[0]})"

    @property
    def is_loopback(self) -> bool:
        """Whether it is the one that leads back to this machine, whatever other addresses it has been given."""
        return any(map(is_loopback, self.addresses))


@dataclass(frozen=True)
class Way:
    """How this machine reaches a peer."""

    peer: str
    interface: str
    address: str
    """This machine's address on that interface."""
    others: tuple[Interface, ...]
    """What could have been chosen instead."""

    def __str__(self) -> str:
        """One line for the log: what was chosen, why, and how to choose something else."""
        others = f"; also here: {', '.join(map(str, self.others))}" if self.others else ""
        return (
            f"network interface {self.interface} ({self.address}) leads to {self.peer}{others}; "
            "set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to use another"
        )


def interfaces() -> tuple[Interface, ...]:
    """Every interface of this machine, loopback included, in the order of the system."""
    import psutil

    status = psutil.net_if_stats()
    found = []
    for name, entries in psutil.net_if_addrs().items():
        # IPv4 first: it is what people recognise, and what Gloo and NCCL take where an interface has both.
        kinds = (socket.AF_INET, socket.AF_INET6)
        addresses = [entry.address.split("%")[0] for kind in kinds for entry in entries if entry.family == kind]
        if addresses:
            found.append(Interface(name, tuple(addresses), is_up=_is_up(status.get(name))))
    return tuple(found)


def _is_up(status: Any) -> bool:
    """From what psutil knows of an interface; an alias, `eth0:1`, has no status of its own."""
    if not (flags := getattr(status, "flags", "")):  # none in old versions
        return status is None or bool(status.isup)
    return "up" in flags.split(",")  # not "running": a cable just plugged in comes to that a moment late


def way_to(peer: str, found: tuple[Interface, ...] | None = None) -> Way | None:
    """The way to another machine; None if there is no route, EndpointError if there is one through loopback only.

    `found` stands for this machine's interfaces.
    """
    if (meaning := means_loopback(peer)) is not None:
        raise EndpointError(
            f"{peer} is another machine but resolves to {meaning} here; correct /etc/hosts on this machine, "
            "or call the machines by their addresses"
        )
    address = address_toward(peer)
    return None if address is None else _way_from(address, peer, interfaces() if found is None else found)


def _way_from(address: str, peer: str, found: tuple[Interface, ...]) -> Way | None:
    """The way that begins at this machine's `address`."""
    carrier = next((one for one in found if address in one.addresses), None)
    if carrier is None:
        return None
    if carrier.is_loopback:
        raise EndpointError(
            f"the way to {peer} begins at {address} on {carrier.name}, the loopback interface; set GLOO_SOCKET_IFNAME "
            "and NCCL_SOCKET_IFNAME to the interface that leads there"
        )
    others = tuple(one for one in found if one is not carrier and one.is_up and not one.is_loopback)
    return Way(peer, carrier.name, address, others)


def choose_interface(peer_host: str) -> str | None:
    """The interface that leads to the other machines of a job, one of which is at `peer_host`; it may be this one.

    None means that nothing should be chosen: the peer is on this machine, or cannot be reached yet. For processes that
    `fleetrun` did not start, where other machines are known by the meeting point alone. A name that means loopback
    here is taken for this machine's own, as many /etc/hosts have it; then the way to everywhere counts.
    """
    if is_loopback(peer_host):
        return None
    try:
        if means_loopback(peer_host) is not None:
            way = _way_from(outward_address(), peer_host, interfaces())
        else:
            way = way_to(peer_host)
    except EndpointError as error:
        log.warning("no network interface was chosen: %s", error)
        return None
    if way is None:
        return None
    if way.others:
        log.info("%s", way)
    return way.interface
