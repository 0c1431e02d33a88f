"""Roles that an engine (Kubernetes, Slurm, Ray, TorchX ...) says outright, in variables of Fleet's own.

FLEET_ROLE=server FLEET_INDEX=0 FLEET_SERVERS=a:6170,b:6170 FLEET_WORKERS=4          server 0
FLEET_ROLE=worker FLEET_INDEX=3 FLEET_SERVERS=file:/job FLEET_SERVER_NUM=2 ...       worker 3; servers are looked up

Where they speak nobody else is asked: what Slurm, MPI, torchrun and PADDLE_* say around them is about the engine.
"""

from __future__ import annotations

from fleet import env
from fleet.env import Environ
from fleet.errors import RoleError, VariableError
from fleet.net import Endpoint, Listed, is_directory, parse_endpoints
from fleet.roles.base import Identity, Rendezvous, Role
from fleet.roles.seat import listed_workers, master, seat_of

SOURCE = "FLEET_ROLE"
_OTHERS = (env.FLEET_INDEX, env.FLEET_SERVERS, env.FLEET_SERVER_NUM, env.FLEET_WORKERS, env.FLEET_WORKER_ENDPOINTS)


def speaks(environ: Environ | None = None) -> bool:
    """Whether an engine has said who this process is; VariableError where it has said the rest, and not the role."""
    if env.FLEET_ROLE.text(environ) is not None:
        return True
    for variable in _OTHERS:
        if variable.text(environ) is not None:
            raise VariableError(
                "FLEET_ROLE", f"is not set, but {variable.name}={variable.text(environ)}; say server or worker"
            )
    return False


def read(is_collective: bool, environ: Environ | None = None) -> Identity:
    """Who this process is; RoleError or VariableError, in one line, where the variables do not fit together."""
    role = Role[env.FLEET_ROLE.require("say server or worker", environ)]
    name = role.name.lower()
    index = env.FLEET_INDEX.require(f"FLEET_ROLE={name} needs its index among the {name}s, from 0", environ)
    servers = _servers(environ)
    if is_collective and (servers or role is Role.SERVER):
        said = "FLEET_ROLE=server" if role is Role.SERVER else f"FLEET_SERVERS={env.FLEET_SERVERS.text(environ)}"
        raise RoleError(f"{said}, but a collective job has no servers; unset it, or leave out is_collective=True")
    if role is Role.SERVER and not servers:
        raise VariableError("FLEET_SERVERS", "is not set, but FLEET_ROLE=server; list every server's HOST:PORT there")
    workers = listed_workers(env.FLEET_WORKER_ENDPOINTS, environ)
    count = env.FLEET_WORKERS.get(environ)
    if workers and count not in (None, len(workers)):
        raise RoleError(
            f"FLEET_WORKERS={count}, but FLEET_WORKER_ENDPOINTS lists {len(workers)} workers; mend one of them"
        )
    if count is None:
        count = len(workers) or env.FLEET_WORKERS.require("every process needs the number of workers", environ)
    where = workers[0] if workers else master(environ)
    if not servers and count > 1 and where is None:
        raise VariableError(
            "FLEET_WORKER_ENDPOINTS",
            f"is not set, and {count} workers without servers meet there; list every worker's HOST:PORT, or set "
            "MASTER_ADDR and MASTER_PORT",
        )
    who = Identity(
        role=role,
        index=index,
        num_workers=count,
        source=SOURCE,
        server_endpoints=servers,
        worker_endpoints=workers,
        rendezvous=None if where is None else Rendezvous(where),
    )
    return who if role is Role.SERVER else seat_of(who, env.LOCAL_RANK.get(environ), environ).given_to(who)


def _servers(environ: Environ | None) -> tuple[Endpoint, ...]:
    text, number = env.FLEET_SERVERS.get(environ), env.FLEET_SERVER_NUM.get(environ)
    if text is None:
        if number is not None:
            raise VariableError("FLEET_SERVERS", f"is not set, but FLEET_SERVER_NUM={number}; say where they are")
        return ()
    if is_directory(text):
        if number is None:
            number = env.FLEET_SERVER_NUM.require(f"FLEET_SERVERS={text} does not say how many there are", environ)
        return tuple(Listed(text, 0, server) for server in range(number))
    servers = parse_endpoints(text, env.FLEET_SERVERS.name)
    if number not in (None, len(servers)):
        raise RoleError(f"FLEET_SERVER_NUM={number}, but FLEET_SERVERS lists {len(servers)}; mend one of them")
    return servers
