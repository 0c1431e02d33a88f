"""The servers of a job, and which of them this process is, in each spelling of PaddlePaddle's guides.

PADDLE_PSERVERS_IP_PORT_LIST=10.0.0.1:6170,10.0.0.2:6170         PaddleCloud since 1.7, fleetrun
PADDLE_PSERVERS=10.0.0.1,10.0.0.2  PADDLE_PORT=6170              before; or PADDLE_PORT=6170,6171
PADDLE_PSERVER_IPS=10.0.0.1        PADDLE_PSERVER_PORT=6174      the Fluid guide
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet import env
from fleet.env import Environ, EnvVariable
from fleet.errors import RoleError, VariableError
from fleet.net import Endpoint, parse_endpoints, parse_host, refuse_duplicates
from fleet.roles.arguments import agreed

LISTS = (env.PADDLE_PSERVERS_IP_PORT_LIST, env.PADDLE_PSERVERS, env.PADDLE_PSERVER_IPS)
"""Any of these means a job with servers."""


def read_servers(environ: Environ | None) -> tuple[Endpoint, ...]:
    """Every server by index; empty when no spelling is set, RoleError when two spellings differ."""
    found: dict[str, tuple[Endpoint, ...]] = {}
    whole = env.PADDLE_PSERVERS_IP_PORT_LIST
    text = whole.get(environ)
    if text is not None:
        found[whole.name] = parse_endpoints(text, whole.name)
    for hosts, ports in (
        (env.PADDLE_PSERVERS, env.PADDLE_PORT),
        (env.PADDLE_PSERVER_IPS, env.PADDLE_PSERVER_PORT),
    ):
        text = hosts.get(environ)
        if text is not None:
            found[f"{hosts.name} with {ports.name}"] = _join(hosts, text, ports, environ)
    names = list(found)
    for other in names[1:]:
        if found[other] != found[names[0]]:
            raise RoleError(
                f"{names[0]} names the servers {_show(found[names[0]])}, "
                f"but {other} names {_show(found[other])}; unset one of them"
            )
    return found[names[0]] if names else ()


def _join(hosts: EnvVariable[str], text: str, ports: EnvVariable[str], environ: Environ | None) -> tuple[Endpoint, ...]:
    names = [parse_host(part, hosts.name) for part in text.split(",")]
    numbers = ports.require(f"{hosts.name} names hosts and needs their port", environ).split(",")
    if len(numbers) == 1:
        numbers *= len(names)
    if len(numbers) != len(names):
        raise RoleError(
            f"{ports.name} lists {len(numbers)} ports for the {len(names)} hosts of {hosts.name}; "
            "give one port for all, or one for each"
        )
    servers = tuple(
        Endpoint.parse(f"{name}:{port.strip()}", f"{hosts.name} with {ports.name}")
        for name, port in zip(names, numbers, strict=True)
    )
    refuse_duplicates(servers, f"{hosts.name} with {ports.name}")
    return servers


def own_index(servers: Sequence[Endpoint], environ: Environ | None) -> int:
    """Which of `servers` this process is: PADDLE_PSERVER_ID, or the position of its own address."""
    given = env.PADDLE_PSERVER_ID.get(environ)
    if given is not None and given >= len(servers):
        raise VariableError("PADDLE_PSERVER_ID", f"is {given}, but there are {len(servers)} servers: {_show(servers)}")
    address = agreed((env.POD_IP, env.PADDLE_CURRENT_IP), environ)
    if address is None:
        if given is None:
            raise VariableError(
                "POD_IP",
                "is not set; a server finds itself by POD_IP and PADDLE_PORT, or by PADDLE_PSERVER_ID",
            )
        return given
    me, positions = _positions(servers, address, environ)
    if given is not None:
        # An index is there for addresses that do not tell; but one that tells something else is a mistake.
        if len(positions) == 1 and positions[0] != given:
            raise RoleError(
                f"PADDLE_PSERVER_ID={given}, but {me} is server {positions[0]} of {_show(servers)}; unset one of them"
            )
        return given
    if not positions:
        raise RoleError(
            f"{me}, this server's own address by POD_IP (or PADDLE_CURRENT_IP) and PADDLE_PORT, "
            f"is not among the servers {_show(servers)}; mend the address or the list"
        )
    if len(positions) > 1:
        raise VariableError(
            "PADDLE_PORT",
            f"does not tell which server on {me} this is, of {_show(servers)}; set PADDLE_PSERVER_ID",
        )
    return positions[0]


def _positions(servers: Sequence[Endpoint], address: str, environ: Environ | None) -> tuple[str, list[int]]:
    """Own address as text, and the servers it may be; without a port of its own, each server on the host."""
    host = parse_host(address, "POD_IP")
    port = env.PADDLE_PORT.get(environ) or env.PADDLE_PSERVER_PORT.get(environ)
    if port is None or "," in port:
        return host, [position for position, server in enumerate(servers) if server.host == host]
    me = Endpoint.parse(f"{host}:{port}", "POD_IP with PADDLE_PORT")
    return str(me), [position for position, server in enumerate(servers) if server == me]


def _show(servers: Sequence[Endpoint]) -> str:
    return ",".join(map(str, servers))
