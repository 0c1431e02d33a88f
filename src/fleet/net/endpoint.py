"""HOST:PORT, read from text that people write."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from fleet.errors import EndpointError

# With "_": no name of the Internet has it, but those that docker compose gives its containers do.
_HOST_NAME = re.compile(r"^(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?$")
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
    def parse(cls, text: str, what: str = "endpoint", *, any_port: bool = False) -> Endpoint:
        """Read `HOST:PORT`; `what` names the option or variable in the error. `any_port`: 0 may stand there."""
        host, separator, port = text.strip().rpartition(":")
        if not separator or not host:
            raise EndpointError(f"{what} {text!r} has no port; write it as HOST:PORT, for example 10.0.0.1:6170")
        if not (port.isascii() and port.isdigit()) or not 1 - any_port <= int(port) < 65536:
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
