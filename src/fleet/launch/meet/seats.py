"""Who takes part in a round, and in which order."""

from collections.abc import Iterable

from fleet import net
from fleet.launch.arguments.options import Nodes
from fleet.launch.meet.guest import Guest
from fleet.net import Endpoint


def choose(guests: Iterable[Guest], most: int) -> list[Guest]:
    """Who takes part: those who came first, each index asked for once."""
    chosen: list[Guest] = []
    for guest in guests:
        is_taken = guest.rank is not None and guest.rank in [other.rank for other in chosen]
        if len(chosen) < most and not is_taken:
            chosen.append(guest)
    return chosen


def seat(guests: list[Guest], most: int) -> list[Guest]:
    """The order of the machines: the index asked for, else by arrival; where some are missing the rest move up."""
    seats = {guest.rank: guest for guest in guests if guest.rank is not None}
    free = iter([number for number in range(most) if number not in seats])
    seats |= {next(free): guest for guest in guests if guest.rank is None}
    return [seats[number] for number in sorted(seats)]


def what_is_missing(nodes: Nodes, num_here: int, num_stragglers: int) -> str:
    """`1 of 3`, `2 of at least 4`: machines that are waited for."""
    least = f"at least {nodes.least}" if nodes.is_range else str(nodes.least)
    return f"{max(nodes.least - num_here, num_stragglers)} of {least}"


def how_to_come(point: Endpoint) -> str:
    """What to do about machines that have not come."""
    remedy = "start fleetrun there, or check that they can reach this address"
    if net.is_loopback(point.host) or any(map(net.is_loopback, net.resolve(point.host))):
        remedy += f" ({point.host} is loopback on this machine: the others need an address that leads here)"
    return remedy
