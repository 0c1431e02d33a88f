"""Endpoints, held ports, and this machine's addresses: one idea of them for the launcher, the roles and the servers."""

from fleet.net.endpoint import Endpoint, parse_endpoints, parse_host, parse_hosts, refuse_duplicates
from fleet.net.hold import Hold, family_of, listen
from fleet.net.machine import (
    LOOPBACK,
    address_toward,
    interface_of,
    is_local,
    is_loopback,
    local_addresses,
    outward_address,
    own_address,
    resolve,
)

__all__ = [
    "LOOPBACK",
    "Endpoint",
    "Hold",
    "address_toward",
    "family_of",
    "interface_of",
    "is_local",
    "is_loopback",
    "listen",
    "local_addresses",
    "outward_address",
    "own_address",
    "parse_endpoints",
    "parse_host",
    "parse_hosts",
    "refuse_duplicates",
    "resolve",
]
