"""Endpoints, held ports, this machine's addresses and interfaces: one idea of them for all who need one."""

from fleet.net.directory import Directory, Listed, add_kind, is_directory, parse_place
from fleet.net.endpoint import Endpoint, parse_endpoints, parse_host, parse_hosts, refuse_duplicates
from fleet.net.hold import Hold, family_of, listen
from fleet.net.interface import Interface, Way, choose_interface, interfaces, way_to
from fleet.net.machine import (
    LOOPBACK,
    address_toward,
    interface_of,
    is_local,
    is_loopback,
    local_addresses,
    means_loopback,
    outward_address,
    own_address,
    resolve,
)

__all__ = [
    "LOOPBACK",
    "Directory",
    "Endpoint",
    "Hold",
    "Interface",
    "Listed",
    "Way",
    "add_kind",
    "address_toward",
    "choose_interface",
    "family_of",
    "interface_of",
    "interfaces",
    "is_directory",
    "is_local",
    "is_loopback",
    "listen",
    "local_addresses",
    "means_loopback",
    "outward_address",
    "own_address",
    "parse_endpoints",
    "parse_host",
    "parse_hosts",
    "parse_place",
    "refuse_duplicates",
    "resolve",
    "way_to",
]
