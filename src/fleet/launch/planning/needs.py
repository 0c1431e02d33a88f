"""What this machine needs for a job: ports, and where it meets the other machines; nothing is held or met here."""

from collections.abc import Sequence
from dataclasses import replace

from fleet import env, net
from fleet.errors import EndpointError, UsageError
from fleet.launch.arguments.options import Nodes, Options
from fleet.launch.planning.layout import THE_MEETING_S, JobLayout, MeetingPlace, Needs, Ports
from fleet.launch.tls.certificates import terms as terms_of_tls
from fleet.net import Endpoint

DEFAULT_START_PORT = 6070
# Below the workers' ports, so that they are the same on machines that disagree about how many workers there are.
MEETING_OFFSET = -1
MASTER_OFFSET = -2


def start_port(options: Options) -> int:
    """The first fixed port: argument, else FLAGS_START_PORT, else 6070."""
    return options.start_port or env.FLAGS_START_PORT.get() or DEFAULT_START_PORT


def collective_needs(options: Options, num_local: int) -> Needs:
    """Workers only: on this machine, on the machines of `--ips`, or on those that meet at `--master`."""
    if options.master is not None:
        return met_needs(options, 0, num_local)
    ips = options.ips or (net.LOOPBACK,)
    if len(ips) == 1:
        return lone_needs(options, ips[0], 0, num_local)

    first = start_port(options)
    refuse_impossible_ports(first + MASTER_OFFSET, first + num_local - 1)
    node = own_node(ips, options.rank)
    refuse_unreachable(ips, node)
    workers = tuple(Endpoint(ip, first + i) for ip in ips for i in range(num_local))
    local = tuple(range(node * num_local, (node + 1) * num_local))
    master = Endpoint(ips[0], first + MASTER_OFFSET)
    return Needs(
        Ports((), tuple(workers[i] for i in local), master if node == 0 else None),
        MeetingPlace(
            point=Endpoint(ips[0], first + MEETING_OFFSET),
            nodes=Nodes(len(ips), len(ips)),
            rank=node,
            terms=f"--max_restart {options.max_restart}, --ips {','.join(ips)}, {num_local} workers each",
        ),
        JobLayout((), workers, (), local, master, node, len(ips)),
    )


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


def lone_needs(options: Options, host: str, num_servers: int, num_workers: int) -> Needs:
    """One machine: ports from the operating system, or from `--start_port` on."""
    own_node((host,), options.rank)
    first = options.start_port or env.FLAGS_START_PORT.get()
    if first is None:
        return Needs(Ports.anywhere(host, num_servers, num_workers))
    is_collective = num_servers == 0
    refuse_impossible_ports(first, first + num_servers + num_workers + is_collective - 1)
    master = first + num_servers + num_workers
    return Needs(
        Ports(
            servers=tuple(Endpoint(host, port) for port in range(first, first + num_servers)),
            workers=tuple(Endpoint(host, port) for port in range(first + num_servers, master)),
            master=Endpoint(host, master) if is_collective else None,
        )
    )


def met_needs(options: Options, num_servers: int, num_workers: int) -> Needs:
    """Several machines that meet at `--master` and tell each other the ports they hold."""
    assert options.master is not None
    nodes = options.nnodes
    if options.rank is not None and options.rank >= nodes.most:
        raise UsageError(f"--rank {options.rank}: --nnodes {nodes}, so the last rank is {nodes.most - 1}")
    kind = "parameter servers" if num_servers else "collective"
    both = f"{options.durable_terms}{terms_of_tls(options)}"
    ports = Ports.anywhere(THE_MEETING_S, num_servers, num_workers)
    if options.standby is not None:
        ports = replace(ports, copies=ports.servers)
    return Needs(
        ports,
        MeetingPlace(
            point=Endpoint.parse(options.master, "--master"),
            nodes=nodes,
            rank=options.rank,
            terms=f"--nnodes {nodes}, --max_restart {options.max_restart}, {kind}{both}",
        ),
    )


def refuse_impossible_ports(first: int, last: int) -> None:
    """Raise if a port that `--start_port` leads to does not exist."""
    if first < 1 or last > 65535:
        raise EndpointError(
            f"--start_port (or FLAGS_START_PORT) leads to ports {first} to {last}; a port is a number from 1 to 65535"
        )
