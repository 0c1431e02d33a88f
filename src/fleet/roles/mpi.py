"""Roles from MPI: two processes on each node, the even rank a server, the odd one a worker."""

from __future__ import annotations

from fleet.errors import RoleError
from fleet.roles import mpi_world
from fleet.roles.base import Identity, Rendezvous, Role, RoleMaker
from fleet.roles.seat import Seat, seat_among


class MPISymetricRoleMaker(RoleMaker):
    """`mpirun -np 2 python train.py` makes one server and one worker. (The spelling is PaddlePaddle's.)

    Every server's port, and the one where the workers meet, comes from the operating system and is held until
    `close()` or the end of the process, so that two jobs on one machine never collide. The first question, or
    `generate_role()`, must be asked on all ranks: they tell each other their ports.
    """

    def _generate(self) -> Identity:
        world = mpi_world.world()
        if world.size % 2:
            raise RoleError(
                "MPISymetricRoleMaker pairs a server with each worker and needs an even number of processes, "
                f"got {world.size}; start it with mpirun -np {world.size + 1}"
            )
        role = Role.WORKER if world.rank % 2 else Role.SERVER
        self._hold, endpoints = world.hold_ports(is_mine=role is Role.SERVER or world.rank == 1)
        meeting = endpoints[1]
        assert meeting is not None
        seat = seat_among(world.machines[1::2], world.rank // 2) if role is Role.WORKER else Seat()
        who = Identity(
            role=role,
            index=world.rank // 2,
            num_workers=world.size // 2,
            source="MPI (the rank's parity)",
            server_endpoints=tuple(endpoint for endpoint in endpoints[::2] if endpoint is not None),
            rendezvous=Rendezvous(meeting),
            holds_port=role is Role.SERVER,
        )
        return seat.given_to(who)
