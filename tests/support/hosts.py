"""Two hosts on one machine: network namespaces joined by a cable (a veth pair), each with an address of its own."""

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


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Make two hosts and remove them afterwards."""
    tag = uuid4().hex[:6]
    hosts = tuple(Host(f"fleet-{tag}-{number}", f"198.18.0.{number}") for number in (1, 2))
    cables = [f"fl{tag}{number}" for number in (1, 2)]
    try:
        for host in hosts:
            _ip("netns", "add", host.namespace)
        _ip(
            "link",
            "add",
            cables[0],
            "netns",
            hosts[0].namespace,
            "type",
            "veth",
            "peer",
            "name",
            cables[1],
            "netns",
            hosts[1].namespace,
        )
        for host, cable in zip(hosts, cables, strict=True):
            _ip("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", cable)
            _ip("-n", host.namespace, "link", "set", cable, "up")
            _ip("-n", host.namespace, "link", "set", "lo", "up")
        yield hosts[0], hosts[1]
    finally:
        for host in hosts:
            subprocess.run(["ip", "netns", "delete", host.namespace], capture_output=True, timeout=10)
