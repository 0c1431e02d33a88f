"""Hosts on one machine: network namespaces joined by cables (veth pairs), each with an address of its own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4


@dataclass(frozen=True)
class Host:
    """A namespace with an address."""

    namespace: str
    address: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """What to put before a command so that it runs on this host."""
        return ("ip", "netns", "exec", self.namespace)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=10)


def why_not() -> str | None:
    """The reason why hosts cannot be made here, or None."""
    if shutil.which("ip") is None:
        return "the ip command (iproute2) is not installed"
    name = f"probe-{uuid4().hex[:8]}"
    try:
        _ip("netns", "add", name)
    except subprocess.CalledProcessError as error:
        return f"network namespaces cannot be made: {error.stderr.strip()}"
    _ip("netns", "delete", name)
    return None


def _plug(ends: tuple[tuple[Host, str], tuple[Host, str]]) -> None:
    """Lay a cable between two hosts; each end is a host and the interface's name there."""
    (one, name), (other, other_name) = ends
    _ip(
        "link",
        "add",
        name,
        "netns",
        one.namespace,
        "type",
        "veth",
        "peer",
        "name",
        other_name,
        "netns",
        other.namespace,
    )


def _turn_on(host: Host, interface: str, address: str) -> None:
    if address:
        _ip("-n", host.namespace, "addr", "add", f"{address}/24", "dev", interface)
    _ip("-n", host.namespace, "link", "set", interface, "up")


@contextmanager
def _namespaces(count: int) -> Iterator[list[Host]]:
    tag = uuid4().hex[:6]
    hosts = [Host(f"fleet-{tag}-{number}", f"198.18.0.{number}") for number in range(1, count + 1)]
    try:
        for host in hosts:
            _ip("netns", "add", host.namespace)
            _turn_on(host, "lo", "")
        yield hosts
    finally:
        for host in hosts:
            subprocess.run(["ip", "netns", "delete", host.namespace], capture_output=True, timeout=10)


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Make two hosts and remove them afterwards."""
    with _namespaces(2) as hosts:
        cables = [f"fl{host.namespace[6:12]}{number}" for number, host in enumerate(hosts, 1)]
        _plug(((hosts[0], cables[0]), (hosts[1], cables[1])))
        for host, cable in zip(hosts, cables, strict=True):
            _turn_on(host, cable, host.address)
        yield hosts[0], hosts[1]


class Network:
    """Hosts at a switch, which can be cut off."""

    def __init__(self, hosts: list[Host], switch: Host) -> None:
        self.hosts = hosts
        self._switch = switch

    @contextmanager
    def without(self, number: int, how: str) -> Iterator[None]:
        """Cut a host off: `cable`, its own interface is down; `silence`, the switch drops what it sends and gets."""
        if how == "cable":
            host = self.hosts[number].namespace
            _ip("-n", host, "link", "set", "eth0", "down")
            yield
            _ip("-n", host, "link", "set", "eth0", "up")
        else:
            port = ("-n", self._switch.namespace, "link", "set", f"port{number}")
            _ip(*port, "nomaster")
            yield
            _ip(*port, "master", "switch")


@contextmanager
def hosts_at_a_switch(count: int) -> Iterator[list[Host]]:
    """Make hosts that all reach each other, and remove them afterwards."""
    with switched_network(count) as network:
        yield network.hosts


@contextmanager
def switched_network(count: int) -> Iterator[Network]:
    """The same, with a switch that can be told to drop everything."""
    with _namespaces(count + 1) as (*hosts, switch):
        _ip("-n", switch.namespace, "link", "add", "switch", "type", "bridge")
        _turn_on(switch, "switch", "")
        for number, host in enumerate(hosts):
            _plug(((host, "eth0"), (switch, f"port{number}")))
            _ip("-n", switch.namespace, "link", "set", f"port{number}", "master", "switch")
            _turn_on(switch, f"port{number}", "")
            _turn_on(host, "eth0", host.address)
        yield Network(hosts, switch)


@contextmanager
def hosts_with_two_cables() -> Iterator[tuple[Host, Host]]:
    """Two hosts with two cables: `wire0` in the network of their addresses, and `wire1` in another one.

    `wire1` comes first in the order of the system, so that who just takes the first takes the wrong one.
    """
    with _namespaces(2) as (one, other):
        for cable, network in (("wire1", "198.19.0"), ("wire0", "198.18.0")):
            _plug(((one, cable), (other, cable)))
            for number, host in enumerate((one, other), 1):
                _turn_on(host, cable, f"{network}.{number}")
        yield one, other
