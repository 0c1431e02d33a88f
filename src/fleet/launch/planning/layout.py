"""Where every process of a job listens: the same answer on every machine, with this machine's ports already held."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from fleet import env, net
from fleet.errors import EndpointError, UsageError
from fleet.launch.arguments.options import Nodes, Options
from fleet.launch.meet.messages import Offer
from fleet.launch.meet.team import Round, Team
from fleet.launch.tls.certificates import terms as terms_of_tls
from fleet.net import Endpoint, Hold

DEFAULT_START_PORT = 6070
# Below the workers' ports, so that they are the same on machines that disagree about how many workers there are.
MEETING_OFFSET = -1
MASTER_OFFSET = -2


@dataclass(frozen=True)
class Layout:
    """All endpoints of a job, and which of them are this machine's."""

    servers: tuple[Endpoint, ...]
    workers: tuple[Endpoint, ...]
    local_servers: tuple[int, ...]
    local_workers: tuple[int, ...]
    master: Endpoint | None
    """Where scripts that are not ours meet: MASTER_ADDR and MASTER_PORT of a collective job."""
    node_index: int
    num_nodes: int
    team: Team
    """The launchers of all machines."""
    round: Round
    """The attempt that this layout is for: the next one may have other machines and other ports."""

    @property
    def host(self) -> str:
        """This machine's address in the job."""
        mine = [self.servers[i] for i in self.local_servers] + [self.workers[i] for i in self.local_workers]
        return mine[0].host

    @property
    def peers(self) -> tuple[str, ...]:
        """The addresses of the other machines."""
        listed = dict.fromkeys(endpoint.host for endpoint in (*self.servers, *self.workers))
        return tuple(host for host in listed if host != self.host)


def start_port(options: Options) -> int:
    """The first fixed port: argument, else FLAGS_START_PORT, else 6070."""
    return options.start_port or env.FLAGS_START_PORT.get() or DEFAULT_START_PORT


def collective_layout(options: Options, num_local: int, team: Team, holds: ExitStack) -> Layout:
    """Workers only: on this machine, on the machines of `--ips`, or on those that meet at `--master`."""
    if options.master is not None:
        return met_layout(options, 0, num_local, team, holds)
    ips = options.ips or (net.LOOPBACK,)
    if len(ips) == 1:
        return lone_layout(options, ips[0], 0, num_local, team, holds)

    first = start_port(options)
    refuse_impossible_ports(first + MASTER_OFFSET, first + num_local - 1)
    node = own_node(ips, options.rank)
    refuse_unreachable(ips, node)
    workers = tuple(Endpoint(ip, first + i) for ip in ips for i in range(num_local))
    local = tuple(range(node * num_local, (node + 1) * num_local))
    master = Endpoint(ips[0], first + MASTER_OFFSET)
    for i in local:
        holds.enter_context(Hold(workers[i]))
    if node == 0:
        holds.enter_context(Hold(master, plain=True))
    terms = f"--max_restart {options.max_restart}, --ips {','.join(ips)}, {num_local} workers each"
    offer = Offer(ips[node], (), tuple(workers[i] for i in local), None, terms)
    point = Endpoint(ips[0], first + MEETING_OFFSET)
    nodes = Nodes(len(ips), len(ips))
    this = team.alone() if options.dry_run else team.meet(point, nodes, node, lambda _: offer)
    return Layout((), workers, (), local, master, node, len(ips), team, this)


def refuse_unreachable(hosts: Sequence[str], node: int) -> None:
    """Raise if one of the job's machines is called by what leads nowhere but to the machine that hears it."""
    loopback = [host for host in hosts if net.is_loopback(host)]
    if loopback and len(loopback) < len(hosts):
        raise UsageError(
            f"--ips names {loopback[0]}, which other machines cannot reach; give the machine's address in their network"
        )
    for number, host in enumerate(hosts):
        if number != node and (found := net.means_loopback(host)):
            raise UsageError(
                f"--ips names {host}, which resolves to {found} on this machine though it is another; "
                "correct /etc/hosts, or give its address"
            )


def own_node(hosts: Sequence[str], rank: int | None) -> int:
    """Which of `hosts` is this machine."""
    if rank is not None:
        if rank >= len(hosts):
            raise UsageError(f"--rank {rank}: --ips names {len(hosts)} machines, so the last rank is {len(hosts) - 1}")
        return rank
    mine = [i for i, host in enumerate(hosts) if net.is_local(host)]
    if not mine:
        raise UsageError(
            f"--ips {','.join(hosts)}: none is an address of this machine, which has "
            f"{', '.join(net.local_addresses())}; add one of these"
        )
    if len(mine) > 1:
        raise UsageError(
            f"--ips {','.join(hosts)}: {len(mine)} of them are addresses of this machine"
            f"{loopback_note([hosts[i] for i in mine])}; say which with --rank"
        )
    return mine[0]


def loopback_note(hosts: Sequence[str]) -> str:
    """Why names are taken for this machine, where the reason is a line in /etc/hosts; else nothing."""
    found = [f"{host} resolves to {address} here" for host in hosts if (address := net.means_loopback(host))]
    return f" ({'; '.join(found)})" if found else ""


def lone_layout(
    options: Options, host: str, num_servers: int, num_workers: int, team: Team, holds: ExitStack
) -> Layout:
    """One machine: ports from the operating system, or from `--start_port` on."""
    own_node((host,), options.rank)
    first = options.start_port or env.FLAGS_START_PORT.get()
    is_collective = num_servers == 0
    num_ports = num_servers + num_workers + is_collective
    if first is not None:
        refuse_impossible_ports(first, first + num_ports - 1)
    wanted = [Endpoint(host, 0 if first is None else first + i) for i in range(num_ports)]
    held = [holds.enter_context(Hold(endpoint)).endpoint for endpoint in wanted[: num_servers + num_workers]]
    master = holds.enter_context(Hold(wanted[-1], plain=True)).endpoint if is_collective else None
    return Layout(
        servers=tuple(held[:num_servers]),
        workers=tuple(held[num_servers:]),
        local_servers=tuple(range(num_servers)),
        local_workers=tuple(range(num_workers)),
        master=master,
        node_index=0,
        num_nodes=1,
        team=team,
        round=team.alone(),
    )


def met_layout(options: Options, num_servers: int, num_workers: int, team: Team, holds: ExitStack) -> Layout:
    """Several machines that meet at `--master` and tell each other the ports they hold."""
    assert options.master is not None
    nodes = options.nnodes
    if options.rank is not None and options.rank >= nodes.most:
        raise UsageError(f"--rank {options.rank}: --nnodes {nodes}, so the last rank is {nodes.most - 1}")
    is_collective = num_servers == 0

    def hold_ports(host: str) -> Offer:
        held = [holds.enter_context(Hold.any_port(host)).endpoint for _ in range(num_servers + num_workers)]
        master = holds.enter_context(Hold.any_port(host, plain=True)).endpoint if is_collective else None
        kind = "collective" if is_collective else "parameter servers"
        both = f"{options.durable_terms}{terms_of_tls(options)}"
        terms = f"--nnodes {nodes}, --max_restart {options.max_restart}, {kind}{both}"
        return Offer(host, tuple(held[:num_servers]), tuple(held[num_servers:]), master, terms)

    this = team.meet(Endpoint.parse(options.master, "--master"), nodes, options.rank, hold_ports)
    offers, me = this.offers, this.node_index
    servers_before = sum(len(offer.servers) for offer in offers[:me])
    workers_before = sum(len(offer.workers) for offer in offers[:me])
    return Layout(
        servers=tuple(endpoint for offer in offers for endpoint in offer.servers),
        workers=tuple(endpoint for offer in offers for endpoint in offer.workers),
        local_servers=tuple(range(servers_before, servers_before + num_servers)),
        local_workers=tuple(range(workers_before, workers_before + num_workers)),
        master=offers[0].master,
        node_index=me,
        num_nodes=len(offers),
        team=team,
        round=this,
    )


def refuse_impossible_ports(first: int, last: int) -> None:
    """Raise if a port that `--start_port` leads to does not exist."""
    if first < 1 or last > 65535:
        raise EndpointError(
            f"--start_port (or FLAGS_START_PORT) leads to ports {first} to {last}; a port is a number from 1 to 65535"
        )
