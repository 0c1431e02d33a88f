"""Roles from the variables of an MPI launcher (Open MPI; MPICH and Intel MPI): each process is a worker.

The variables tell who a process is without MPI itself. Only where the workers meet is not among them:
MASTER_ADDR and MASTER_PORT say it, or else `meet()` asks MPI.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fleet import env
from fleet.env import Environ, EnvVariable
from fleet.errors import RoleError, VariableError
from fleet.net import Hold
from fleet.roles import mpi_world
from fleet.roles.base import Identity, Rendezvous, Role
from fleet.roles.seat import Seat, master, refuse_half, seat_among


@dataclass(frozen=True)
class _Launcher:
    name: str
    index: EnvVariable[int]
    count: EnvVariable[int]
    local_rank: EnvVariable[int]
    num_local: EnvVariable[int]


OPEN_MPI = _Launcher(
    "Open MPI",
    env.OMPI_COMM_WORLD_RANK,
    env.OMPI_COMM_WORLD_SIZE,
    env.OMPI_COMM_WORLD_LOCAL_RANK,
    env.OMPI_COMM_WORLD_LOCAL_SIZE,
)
PMI = _Launcher("MPI", env.PMI_RANK, env.PMI_SIZE, env.MPI_LOCALRANKID, env.MPI_LOCALNRANKS)


def is_from_srun(environ: Environ | None = None) -> bool:
    """Whether PMI_RANK comes from srun's PMI plugin: mpirun would have set MPI_LOCALRANKID too."""
    return (
        PMI.index.text(environ) is not None
        and PMI.local_rank.text(environ) is None
        and OPEN_MPI.index.text(environ) is None
    )


def read(environ: Environ | None = None) -> Identity | None:
    """None when no launcher's variables are set; some of them without the others is an error."""
    for launcher in (OPEN_MPI, PMI):
        if launcher.index.text(environ) or launcher.count.text(environ):
            return _read(launcher, environ)
    return None


def _read(launcher: _Launcher, environ: Environ | None) -> Identity:
    index_name, count_name = launcher.index.name, launcher.count.name
    index = launcher.index.require(f"{count_name} is set, so mpirun should have set it too", environ)
    count = launcher.count.require(f"{index_name} is set, so mpirun should have set it too", environ)
    source = f"{launcher.name} ({index_name}, {count_name})"
    who = Identity(role=Role.WORKER, index=index, num_workers=count, source=source)
    if count == 1:
        return who
    refuse_half(environ)
    where = master(environ)
    if where is not None:
        who = replace(who, rendezvous=Rendezvous(where))
    return _seat(launcher, who, environ).given_to(who)


def _seat(launcher: _Launcher, who: Identity, environ: Environ | None) -> Seat:
    why = f"{launcher.count.name}={who.num_workers}, so mpirun should have set it; it tells workers' GPUs apart"
    local_rank = launcher.local_rank.require(why, environ)
    num_local = launcher.num_local.require(why, environ)
    if num_local == 0:
        raise VariableError(launcher.num_local.name, "must be >= 1, got 0")
    # The variables do not name the machine: this takes ranks as filling one machine after another, as mpirun
    # does by default. `meet()` learns it from MPI.
    return Seat(local_rank, num_local, who.index // num_local, -(-who.num_workers // num_local))


def meet(identity: Identity) -> tuple[Identity, Hold | None]:
    """Complete an identity from `read()` with a rendezvous that rank 0 holds. Every rank must call it.

    The hold (rank 0's) keeps the port until it is closed.
    """
    if identity.num_workers == 1 or identity.rendezvous is not None:
        return identity, None
    try:
        world = mpi_world.world()
    except RoleError as error:
        raise RoleError(
            f"{identity.source}: nothing says where the workers meet; set MASTER_ADDR and MASTER_PORT "
            f"(mpirun -x MASTER_ADDR -x MASTER_PORT), or let MPI say it: {error}"
        ) from None
    if (world.rank, world.size) != (identity.index, identity.num_workers):
        raise RoleError(
            f"{identity.source} says rank {identity.index} of {identity.num_workers}, but the MPI library "
            f"says rank {world.rank} of {world.size}; mpirun and mpi4py belong to different MPIs: "
            "set MASTER_ADDR and MASTER_PORT"
        )
    hold, endpoints = world.hold_ports(is_mine=world.rank == 0)
    assert endpoints[0] is not None
    met = replace(identity, rendezvous=Rendezvous(endpoints[0]))
    return seat_among(world.machines, world.rank).given_to(met), hold
