"""Roles from torchrun, or anything else that sets the variables of torch's `env://`."""

from __future__ import annotations

from fleet import env
from fleet.env import Environ
from fleet.errors import VariableError
from fleet.roles.base import Identity, Rendezvous, Role
from fleet.roles.seat import Seat, master, refuse_half

SOURCE = "torchrun (RANK, WORLD_SIZE)"


def read(environ: Environ | None = None) -> Identity | None:
    """None when neither RANK nor WORLD_SIZE is set; one without the other is an error.

    LOCAL_RANK, MASTER_ADDR and the others alone prove nothing, and are not looked at then.
    """
    index, count = env.RANK.get(environ), env.WORLD_SIZE.get(environ)
    if index is None and count is None:
        return None
    if index is None:
        raise VariableError("RANK", f"is not set, but WORLD_SIZE={count}; set both, or unset WORLD_SIZE to run alone")
    if count is None:
        raise VariableError("WORLD_SIZE", f"is not set, but RANK={index}; set both, or unset RANK to run alone")
    who = Identity(
        role=Role.WORKER,
        index=index,
        num_workers=count,
        source=SOURCE,
        rendezvous=_rendezvous(count, environ),
    )
    return _seat(index, count, environ).given_to(who)


def _rendezvous(count: int, environ: Environ | None) -> Rendezvous | None:
    if count > 1:
        refuse_half(environ)
        env.MASTER_ADDR.require(f"WORLD_SIZE={count} workers need MASTER_ADDR and MASTER_PORT to meet", environ)
    where = master(environ)
    if where is None:
        return None
    return Rendezvous(where, is_hosted=env.TORCHELASTIC_USE_AGENT_STORE.get(environ) == "TRUE")


def _seat(index: int, count: int, environ: Environ | None) -> Seat:
    """One worker on each machine when LOCAL_RANK is not set, as in a Kubernetes job that sets RANK alone.

    LOCAL_RANK without LOCAL_WORLD_SIZE, which env:// does not need either: nothing says how many share a machine.
    The workers are taken as spread evenly over GROUP_WORLD_SIZE machines, and as sharing one if that is not set.
    """
    local_rank, num_local = env.LOCAL_RANK.get(environ), env.LOCAL_WORLD_SIZE.get(environ)
    node_index, num_nodes = env.GROUP_RANK.get(environ), env.GROUP_WORLD_SIZE.get(environ)
    if local_rank is None:
        if num_local is not None and num_local > 1:
            raise VariableError("LOCAL_RANK", f"is not set, but LOCAL_WORLD_SIZE={num_local}; set both or neither")
        local_rank, num_local = 0, 1
    elif num_local is None:
        num_nodes = num_nodes or (node_index or 0) + 1
        num_local = max(local_rank + 1, -(-count // num_nodes))
    num_local = max(num_local, 1)
    return Seat(
        local_rank,
        num_local,
        index // num_local if node_index is None else node_index,
        -(-count // num_local) if num_nodes is None else num_nodes,
    )
