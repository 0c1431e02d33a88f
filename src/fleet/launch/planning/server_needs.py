"""What this machine needs for a job with parameter servers, given by number or by endpoint."""

from dataclasses import replace

from fleet import net
from fleet.errors import EndpointError, NotSupportedError, UsageError
from fleet.launch.arguments.options import Nodes, Options
from fleet.launch.planning.layout import JobLayout, MeetingPlace, Needs, Ports
from fleet.launch.planning.needs import (
    MEETING_OFFSET,
    lone_needs,
    loopback_note,
    met_needs,
    refuse_impossible_ports,
    start_port,
)
from fleet.launch.planning.standby_job import refuse_one_machine
from fleet.launch.tls.certificates import refuse_unminted
from fleet.launch.tls.certificates import terms as terms_of_tls
from fleet.net import Endpoint

# Bare hosts in --workers listen past the servers, which people put at 6170 and up.
_WORKER_OFFSET = 100


def server_needs(options: Options) -> Needs:
    """Servers and workers, by number or by endpoint."""
    if options.servers is not None or options.workers is not None:
        return _listed_needs(options)
    if options.server_num is None or options.worker_num is None:
        given, missing = ("server_num", "worker_num") if options.worker_num is None else ("worker_num", "server_num")
        value = getattr(options, given)
        raise UsageError(f"--{given} {value} needs --{missing} too; a parameter-server job has servers and workers")
    if options.master is not None:
        _refuse_restarts(options)
        refuse_unminted(options)
        return met_needs(options, options.server_num, options.worker_num)
    refuse_one_machine(options, 1)
    return lone_needs(options, net.LOOPBACK, options.server_num, options.worker_num)


def _listed_needs(options: Options) -> Needs:
    """`--servers` and `--workers` name every process; those with an address of this machine start here."""
    servers, workers = _read_lists(options)
    hosts = tuple(dict.fromkeys(endpoint.host for endpoint in (*servers, *workers)))
    mine = [host for host in hosts if net.is_local(host)]
    if not mine:
        raise UsageError(
            f"--servers and --workers name {', '.join(hosts)}; none is an address of this machine, which has "
            f"{', '.join(net.local_addresses())}"
        )
    num_nodes = len(hosts) - len(mine) + 1
    refuse_one_machine(options, num_nodes)
    if num_nodes > 1:
        _refuse_restarts(options)
        refuse_unminted(options)
        refuse_impossible_ports(start_port(options) + MEETING_OFFSET, start_port(options))
        if len(mine) > 1:
            raise UsageError(
                f"--servers and --workers name this machine {len(mine)} times, as {', '.join(mine)}"
                f"{loopback_note(mine)}; name each machine by one address"
            )
    if options.nnodes.most not in (1, num_nodes):
        raise UsageError(f"--nnodes {options.nnodes}: --servers and --workers name {num_nodes}; leave --nnodes out")

    local_servers = tuple(i for i, endpoint in enumerate(servers) if endpoint.host in mine)
    local_workers = tuple(i for i, endpoint in enumerate(workers) if endpoint.host in mine)
    ports = Ports(tuple(servers[i] for i in local_servers), tuple(workers[i] for i in local_workers))
    if num_nodes == 1:
        return Needs(ports, layout=JobLayout(servers, workers, local_servers, local_workers, None))
    node = hosts.index(mine[0])
    if options.standby is not None:
        before = sum(endpoint.host == hosts[node - 1] for endpoint in servers)
        ports = replace(ports, copies=(Endpoint(mine[0], 0),) * before)
    lists = f"--servers {options.servers} --workers {options.workers}"
    return Needs(
        ports,
        MeetingPlace(
            point=Endpoint(hosts[0], start_port(options) + MEETING_OFFSET),
            nodes=Nodes(num_nodes, num_nodes),
            rank=node,
            terms=f"{lists}{options.durable_terms}{terms_of_tls(options)}",
        ),
        JobLayout(servers, workers, local_servers, local_workers, None, node, num_nodes),
    )


def _refuse_restarts(options: Options) -> None:
    """Called for every job on several machines: what the servers of a lost machine knew is lost with it.

    A durable job starts its processes again one by one, each machine its own.
    """
    if options.max_restart and options.durable is None:
        raise NotSupportedError(
            "--max_restart on several machines is not supported with parameter servers; leave it out, "
            "or add --durable DIR"
        )


def roles_here(options: Options) -> tuple[bool, bool]:
    """Whether servers, and whether workers, start on this machine; known before any port is held."""
    if options.servers is None and options.workers is None:
        return True, True
    servers, workers = (any(net.is_local(one.host) for one in listed) for listed in _read_lists(options))
    return servers, workers


def refuse_counts(options: Options) -> None:
    """UsageError if `--servers` or `--workers`, which name each process, is only a number of them."""
    given = {"server": options.servers, "worker": options.workers}
    counts = {kind: text for kind, text in given.items() if text is not None and text.isascii() and text.isdigit()}
    if counts:
        wrong = " ".join(f"--{kind}s {text}" for kind, text in counts.items())
        right = " ".join(f"--{kind}_num {text}" for kind, text in counts.items())
        raise UsageError(f"{wrong}: addresses stand there, HOST:PORT of each; for a number of them write {right}")


def _read_lists(options: Options) -> tuple[tuple[Endpoint, ...], tuple[Endpoint, ...]]:
    if options.servers is None:
        raise UsageError("--workers needs --servers too: the HOST:PORT of each server")
    if options.workers is None:
        raise UsageError("--servers needs --workers too: the HOST:PORT (or HOST) of each worker")
    servers = net.parse_endpoints(options.servers, "--servers")
    workers = _worker_endpoints(options.workers, start_port(options) + _WORKER_OFFSET + len(servers))
    for name, number, listed in (("server", options.server_num, servers), ("worker", options.worker_num, workers)):
        if number not in (None, len(listed)):
            raise UsageError(f"--{name}_num {number}: --{name}s names {len(listed)}; leave --{name}_num out")
    net.refuse_duplicates((*servers, *workers), "--servers and --workers")
    return servers, workers


def _worker_endpoints(text: str, first_port: int) -> tuple[Endpoint, ...]:
    """`--workers`: HOST:PORT each, or bare hosts, whose ports count up from `first_port`."""
    used: dict[str, int] = {}
    endpoints = []
    for part in text.split(","):
        try:
            host = net.parse_host(part, "--workers")
        except EndpointError:
            endpoints.append(Endpoint.parse(part, "--workers"))
            continue
        endpoints.append(Endpoint(host, first_port + used.setdefault(host, 0)))
        used[host] += 1
    refuse_impossible_ports(first_port, first_port + max(used.values(), default=1) - 1)
    return tuple(endpoints)
