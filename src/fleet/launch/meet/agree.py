"""From what this machine needs to the layout of the job: its ports are held, and the machines have met."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from fleet.launch.meet.messages import Offer
from fleet.launch.meet.team import Round, Team
from fleet.launch.planning.layout import JobLayout, Needs, Ports
from fleet.launch.standby.kept import KeptHere
from fleet.net import Endpoint, Hold


def agree(
    needs: Needs, team: Team, holds: ExitStack, *, is_dry: bool = False, kept: KeptHere | None = None
) -> tuple[JobLayout, Round]:
    """Hold the ports of this machine in `holds` and meet the others for the next round of the job.

    `kept`: what an earlier run has left here, in a job with copies. A dry run holds its ports and meets nobody.
    JobOverError if there is no other round.
    """
    meeting_place = needs.meeting_place
    if meeting_place is None or is_dry:
        held = hold(needs.ports, holds)
        return needs.layout or layout_of([held], 0), team.alone()
    if needs.layout is not None:
        hold(replace(needs.ports, copies=()), holds)  # before anybody else is bothered

    offers: list[Offer] = []

    def make_offer(host: str) -> Offer:
        offer = offer_of_today(host)
        if kept is None:
            offers.append(offer)
            return offer
        free = Endpoint(offer.host, 0)
        servers = {server: str(holds.enter_context(Hold(free)).endpoint) for server in kept.servers}
        offers.append(replace(offer, kept=replace(kept, servers=servers)))
        return offers[-1]

    def offer_of_today(host: str) -> Offer:
        if needs.layout is not None:
            ports = needs.ports
            copies = hold(Ports(copies=ports.copies), holds).copies
            return Offer(needs.layout.host, ports.servers, ports.workers, None, meeting_place.terms, copies)
        held = hold(needs.ports.at(host), holds)
        return Offer(host, held.servers, held.workers, held.master, meeting_place.terms, held.copies)

    this = team.meet(meeting_place.point, meeting_place.nodes, meeting_place.rank, make_offer)
    mine, offered = this.offers[this.node_index], offers[-1]
    if (mine.servers, mine.workers) != (offered.servers, offered.workers):  # the others know where it listened before
        hold(Ports(mine.servers, mine.workers), holds)
    return needs.layout or layout_of(this.offers, this.node_index), this


def hold(ports: Ports, holds: ExitStack) -> Ports:
    """Hold ports until `holds` closes; returns those that it became. EndpointError if one cannot be had."""
    servers = tuple(holds.enter_context(Hold(endpoint)).endpoint for endpoint in ports.servers)
    workers = tuple(holds.enter_context(Hold(endpoint)).endpoint for endpoint in ports.workers)
    master = None if ports.master is None else holds.enter_context(Hold(ports.master, plain=True)).endpoint
    copies = tuple(holds.enter_context(Hold(endpoint)).endpoint for endpoint in ports.copies)
    return Ports(servers, workers, master, copies)


def layout_of(offers: Sequence[Offer | Ports], me: int) -> JobLayout:
    """The layout of a job whose machines, in this order, listen there; `me` is this machine's place among them."""
    servers_before = sum(len(offer.servers) for offer in offers[:me])
    workers_before = sum(len(offer.workers) for offer in offers[:me])
    return JobLayout(
        servers=tuple(endpoint for offer in offers for endpoint in offer.servers),
        workers=tuple(endpoint for offer in offers for endpoint in offer.workers),
        local_servers=tuple(range(servers_before, servers_before + len(offers[me].servers))),
        local_workers=tuple(range(workers_before, workers_before + len(offers[me].workers))),
        master=offers[0].master,
        node_index=me,
        num_nodes=len(offers),
    )
