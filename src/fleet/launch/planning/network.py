"""Which network interface the processes of a job talk through: the user's, else the one that leads to the others.

Loopback is never chosen for a job on several machines. Where all "machines" of a job are fleetruns on one machine,
which is how people try things out, the interface of the address they meet at is right, be it loopback.
"""

import logging

from fleet import env, net
from fleet.errors import UsageError, VariableError
from fleet.launch.arguments.options import Options
from fleet.launch.planning.layout import JobLayout

log = logging.getLogger("fleetrun")

_VARIABLES = (env.GLOO_SOCKET_IFNAME, env.NCCL_SOCKET_IFNAME)


def check_given(options: Options, has_gpus: bool) -> None:
    """Refuse what the user set and cannot work, before any other machine is bothered."""
    hosts = (net.Endpoint.parse(options.master, "--master").host,) if options.master else options.ips or ()
    if hosts and (options.master or len(hosts) > 1) and not all(map(net.is_loopback, hosts)):
        refuse_unusable(env.GLOO_SOCKET_IFNAME.text(), env.NCCL_SOCKET_IFNAME.text() if has_gpus else None)


def network_variables(layout: JobLayout, has_gpus: bool) -> dict[str, str]:
    """The variables of Gloo and NCCL that the user has not set; UsageError if they, or those set, cannot work."""
    peers = tuple(peer for peer in layout.peers if net.means_loopback(peer) or not net.is_local(peer))
    given = {variable.name: text for variable in _VARIABLES if (text := variable.text()) is not None}
    if given:
        log.info("%s: passed on unchanged", ", ".join(f"{name}={text}" for name, text in given.items()))
    if peers:
        refuse_unusable(env.GLOO_SOCKET_IFNAME.text(), env.NCCL_SOCKET_IFNAME.text() if has_gpus else None)
    if len(given) == len(_VARIABLES):
        return {}
    interface = _toward(peers) if peers else net.interface_of(net.own_address(layout.host))
    if interface is None:
        return {}
    # NCCL would take a bare name for the beginning of one.
    chosen = {env.GLOO_SOCKET_IFNAME.name: interface, env.NCCL_SOCKET_IFNAME.name: f"={interface}"}
    return {name: text for name, text in chosen.items() if name not in given}


def _toward(peers: tuple[str, ...]) -> str | None:
    """The interface that leads to the other machines; said in the log where there was a choice."""
    ways = [way for peer in peers if (way := net.way_to(peer)) is not None]
    if not ways:
        return None
    if ways[0].others:
        log.info("%s", ways[0])
    if strays := [way for way in ways if way.interface != ways[0].interface]:
        log.warning(
            "%s is reached through %s, the others through %s: processes listen on %s alone",
            ", ".join(way.peer for way in strays),
            strays[0].interface,
            ways[0].interface,
            ways[0].interface,
        )
    return ways[0].interface


def refuse_unusable(gloo: str | None, nccl: str | None, found: tuple[net.Interface, ...] | None = None) -> None:
    """Raise for values of the user's that cannot work on several machines; `found` stands for our interfaces."""
    found = net.interfaces() if found is None else found
    for name in [] if gloo is None else gloo.split(","):
        one = next((one for one in found if one.name == name), None)
        if one is None:
            raise VariableError("GLOO_SOCKET_IFNAME", f"is {gloo}, but there is no interface {name!r} {_among(found)}")
        if one.is_loopback:
            raise _is_loopback("GLOO_SOCKET_IFNAME", gloo or "", found)
    if nccl is not None:
        chosen = matching(nccl, found)
        if not chosen:
            raise VariableError("NCCL_SOCKET_IFNAME", f"is {nccl}, which no interface matches {_among(found)}")
        if all(one.is_loopback for one in chosen):
            raise _is_loopback("NCCL_SOCKET_IFNAME", nccl, found)


def matching(text: str, found: tuple[net.Interface, ...]) -> tuple[net.Interface, ...]:
    """The interfaces that NCCL_SOCKET_IFNAME allows: prefixes, `=` before exact names, `^` before what is excluded."""
    is_excluding = text.startswith("^")
    text = text.removeprefix("^")
    is_exact = text.startswith("=")
    names = [name for name in text.removeprefix("=").split(",") if name]

    def is_named(one: net.Interface) -> bool:
        return any(one.name == name if is_exact else one.name.startswith(name) for name in names)

    return tuple(one for one in found if is_named(one) is not is_excluding)


def _is_loopback(variable: str, value: str, found: tuple[net.Interface, ...]) -> UsageError:
    return VariableError(variable, f"is {value}, loopback, which leads to no other machine {_among(found)}")


def _among(found: tuple[net.Interface, ...]) -> str:
    usable = ", ".join(str(one) for one in found if not one.is_loopback)
    return f"(this machine has {usable or 'none but loopback'}); correct it, or unset it and fleetrun chooses"
