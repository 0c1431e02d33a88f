"""Where every process of a job listens: the same answer on every machine, with this machine's ports already held."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from fleet import env, net
from fleet.errors import EndpointError, UsageError
from fleet.launch.meeting import meet
from fleet.launch.options import Options
from fleet.launch.team import Offer, Team
from fleet.net import Endpoint, Hold

DEFAULT_START_PORT = 6070
# Below the workers' ports, so that they are the same on machines that disagree about how many workers there are.
_MEETING_OFFSET = -1
_MASTER_OFFSET = -2


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
    """The launchers of the other machines."""

    @property
    def host(self) -> str:
        """This machine's address in the job."""
        mine = [self.servers[i] for i in self.local_servers] + [self.workers[i] for i in self.local_workers]
        return mine[0].host


def start_port(options: Options) -> int:
    """The first fixed port: argument, else FLAGS_START_PORT, else 6070."""
    if options.start_port is not None:
        return options.start_port
    return env.FLAGS_START_PORT.get() or DEFAULT_START_PORT


def collective_layout(options: Options, num_local: int, holds: ExitStack) -> Layout:
    """Workers only: on this machine, on the machines of `--ips`, or on those that meet at `--master`."""
    if options.master is not None:
        return _met_layout(options, num_servers=0, num_workers=num_local, holds=holds)
    ips = options.ips or (net.LOOPBACK,)
    if len(ips) == 1:
        return _lone_layout(options, ips[0], num_servers=0, num_workers=num_local, holds=holds)

    first = start_port(options)
    node = own_node(ips, options.rank)
    _refuse_impossible_ports(first, num_local)
    workers = tuple(Endpoint(ip, first + i) for ip in ips for i in range(num_local))
    local = tuple(range(node * num_local, (node + 1) * num_local))
    master = Endpoint(ips[0], first + _MASTER_OFFSET)
    for i in local:
        holds.enter_context(Hold(workers[i]))
    if node == 0:
        holds.enter_context(Hold(master, plain=True))
    offer = Offer(
        ips[node], (), tuple(workers[i] for i in local), None, f"--ips {','.join(ips)}, {num_local} workers each"
    )
    team = meet(Endpoint(ips[0], first + _MEETING_OFFSET), len(ips), node, lambda _: offer, holds)
    return Layout((), workers, (), local, master, node, len(ips), team)


def server_layout(options: Options, holds: ExitStack) -> Layout:
    """Servers and workers: so many of each on this machine, or the endpoints the user listed."""
    if options.servers is None and options.workers is None:
        num_servers, num_workers = _counts(options)
        if options.master is not None:
            return _met_layout(options, num_servers=num_servers, num_workers=num_workers, holds=holds)
        return _lone_layout(options, net.LOOPBACK, num_servers=num_servers, num_workers=num_workers, holds=holds)
    return _listed_layout(options, holds)


def own_node(hosts: Sequence[str], rank: int | None) -> int:
    """Which of `hosts` is this machine."""
    mine = [i for i, host in enumerate(hosts) if net.is_local(host)]
    if rank is not None:
        if rank >= len(hosts):
            raise UsageError(f"--rank {rank}: --ips names {len(hosts)} machines, so the last rank is {len(hosts) - 1}")
        return rank
    if not mine:
        raise UsageError(
            f"--ips {','.join(hosts)}: none is an address of this machine, which has "
            f"{', '.join(net.local_addresses())}; add one of these"
        )
    if len(mine) > 1:
        raise UsageError(
            f"--ips {','.join(hosts)}: {len(mine)} of them are addresses of this machine; say which with --rank"
        )
    return mine[0]


def _counts(options: Options) -> tuple[int, int]:
    if options.server_num is None or options.worker_num is None:
        given = (
            f"--server_num {options.server_num}" if options.worker_num is None else f"--worker_num {options.worker_num}"
        )
        missing = "--worker_num" if options.worker_num is None else "--server_num"
        raise UsageError(f"{given} needs {missing} too; a parameter-server job has servers and workers")
    return options.server_num, options.worker_num


def _lone_layout(options: Options, host: str, num_servers: int, num_workers: int, holds: ExitStack) -> Layout:
    """One machine: ports from the operating system, or from `--start_port` on."""
    if not net.is_local(host):
        own_node((host,), None)
    first = options.start_port or env.FLAGS_START_PORT.get()
    is_collective = num_servers == 0
    num_ports = num_servers + num_workers + is_collective
    if first is not None:
        _refuse_impossible_ports(first, num_ports)
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
        team=Team(),
    )


def _met_layout(options: Options, num_servers: int, num_workers: int, holds: ExitStack) -> Layout:
    """Several machines that meet at `--master` and tell each other the ports they hold."""
    assert options.master is not None
    if options.nnodes == 1:
        raise UsageError("--master needs --nnodes: the number of machines that will meet there")
    if options.rank is not None and options.rank >= options.nnodes:
        raise UsageError(f"--rank {options.rank}: --nnodes {options.nnodes}, so the last rank is {options.nnodes - 1}")
    is_collective = num_servers == 0

    def hold_ports(host: str) -> Offer:
        held = [holds.enter_context(Hold.any_port(host)).endpoint for _ in range(num_servers + num_workers)]
        master = holds.enter_context(Hold.any_port(host, plain=True)).endpoint if is_collective else None
        terms = f"--nnodes {options.nnodes}, {'collective' if is_collective else 'parameter servers'}"
        return Offer(host, tuple(held[:num_servers]), tuple(held[num_servers:]), master, terms)

    meeting_point = Endpoint.parse(options.master, "--master")
    team = meet(meeting_point, options.nnodes, options.rank, hold_ports, holds)
    offers, me = team.offers, team.node_index
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
    )


def _listed_layout(options: Options, holds: ExitStack) -> Layout:
    """`--servers` and `--workers` name every process; those with an address of this machine start here."""
    if options.servers is None:
        raise UsageError("--workers needs --servers too: the HOST:PORT of each server")
    servers = net.parse_endpoints(options.servers, "--servers")
    if options.server_num is not None and options.server_num != len(servers):
        raise UsageError(f"--server_num {options.server_num}: --servers names {len(servers)}; leave --server_num out")
    if options.workers is None:
        raise UsageError("--servers needs --workers too: the HOST:PORT (or HOST) of each worker")
    workers = _worker_endpoints(options.workers, start_port(options) + 100 + len(servers))
    if options.worker_num is not None and options.worker_num != len(workers):
        raise UsageError(f"--worker_num {options.worker_num}: --workers names {len(workers)}; leave --worker_num out")
    net.refuse_duplicates((*servers, *workers), "--servers and --workers")

    hosts = tuple(dict.fromkeys(endpoint.host for endpoint in (*servers, *workers)))
    mine = {host for host in hosts if net.is_local(host)}
    if not mine:
        raise UsageError(
            f"--servers and --workers name {', '.join(hosts)}; none is an address of this machine, which has "
            f"{', '.join(net.local_addresses())}"
        )
    local_servers = tuple(i for i, endpoint in enumerate(servers) if endpoint.host in mine)
    local_workers = tuple(i for i, endpoint in enumerate(workers) if endpoint.host in mine)
    for endpoint in (*(servers[i] for i in local_servers), *(workers[i] for i in local_workers)):
        holds.enter_context(Hold(endpoint))

    num_nodes = len(hosts) - len(mine) + 1
    node = 0 if hosts[0] in mine else sum(host not in mine for host in hosts[: min(map(hosts.index, mine))])
    team = Team()
    if num_nodes > 1:
        terms = f"--servers {options.servers} --workers {options.workers}"
        own_host = next(host for host in hosts if host in mine)
        offer = Offer(
            own_host, tuple(servers[i] for i in local_servers), tuple(workers[i] for i in local_workers), None, terms
        )
        team = meet(Endpoint(hosts[0], start_port(options) + _MEETING_OFFSET), num_nodes, node, lambda _: offer, holds)
    return Layout(servers, workers, local_servers, local_workers, None, node, num_nodes, team)


def _worker_endpoints(text: str, first_port: int) -> tuple[Endpoint, ...]:
    """`--workers`: HOST:PORT each, or bare hosts, whose ports count up from `first_port`."""
    if ":" in text:
        return net.parse_endpoints(text, "--workers")
    used: dict[str, int] = {}
    endpoints = []
    for part in text.split(","):
        host = net.parse_host(part, "--workers")
        endpoints.append(Endpoint(host, first_port + used.setdefault(host, 0)))
        used[host] += 1
    return tuple(endpoints)


def _refuse_impossible_ports(first: int, count: int) -> None:
    if first + _MASTER_OFFSET < 1 or first + count - 1 > 65535:
        raise EndpointError(
            f"--start_port {first}: ports {first + _MASTER_OFFSET} to {first + count - 1} are needed, "
            "and a port is a number from 1 to 65535"
        )
