"""Where servers and copies are when a job with copies begins: all machines find the same from what they offered."""

from dataclasses import replace

from fleet.launch.meet.messages import Offer
from fleet.launch.meet.team import Round
from fleet.launch.planning.layout import JobLayout
from fleet.launch.standby.keeper import VIEW
from fleet.launch.standby.kept import homes
from fleet.launch.standby.orders import Orders, Post, ServerSeat, new_fills
from fleet.net import Endpoint


def begin(layout: JobLayout, this: Round) -> tuple[JobLayout, Orders]:
    """The layout and the first orders. A new job's copies are on the next machine each, and count from the beginning.

    A job that goes on has its servers where their journals are, and copies only when they have been filled.
    """
    offers = this.offers
    planned = _homes(layout.servers, offers)
    kept = [offer.kept for offer in offers]
    newest = max((one.term.number for one in kept if one.term is not None), default=0)
    seats = [ServerSeat(home, str(server)) for home, server in zip(planned, layout.servers, strict=True)]
    copies: list[ServerSeat | None] = [None] * len(seats)
    found = homes(kept, len(seats))
    if found is None:
        free = [list(offer.copies) for offer in offers]
        nexts = [(home + 1) % len(offers) for home in planned]
        copies = [ServerSeat(machine, str(free[machine].pop(0))) for machine in nexts]
    else:
        for server, home in enumerate(found):
            if home != planned[server]:
                seats[server] = ServerSeat(home, kept[home].servers[server])
        layout = replace(
            layout,
            servers=tuple(Endpoint.parse(seat.endpoint) for seat in seats),
            local_servers=tuple(server for server, home in enumerate(found) if home == this.node_index),
        )
    number = (newest // VIEW + 1) * VIEW if newest else 1
    orders = Orders(
        number=number,
        is_used=True,
        serial=0,
        host=this.host,
        machines=tuple(range(len(offers))),
        servers=tuple(seats),
        copies=tuple(copies),
        since=(number,) * len(seats),
        fills=(None,) * len(seats),
        workers=tuple(Post(home, 0) for home in _homes(layout.workers, offers)),
    )
    return layout, replace(orders, fills=new_fills(orders))


def _homes(endpoints: tuple[Endpoint, ...], offers: tuple[Offer, ...]) -> list[int]:
    """The machine that has offered each endpoint."""
    of = {one: machine for machine, offer in enumerate(offers) for one in (*offer.servers, *offer.workers)}
    return [of[endpoint] for endpoint in endpoints]
