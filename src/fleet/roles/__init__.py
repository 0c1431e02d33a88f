"""Who a process is in a job: worker or server, its index, and where the others are. See docs/roles.md."""

from fleet.roles.base import Identity, Rendezvous, Role, RoleMaker
from fleet.roles.cloud import PaddleCloudRoleMaker
from fleet.roles.discover import discover
from fleet.roles.mpi import MPISymetricRoleMaker
from fleet.roles.user_defined import UserDefinedCollectiveRoleMaker, UserDefinedRoleMaker

__all__ = [
    "Identity",
    "MPISymetricRoleMaker",
    "PaddleCloudRoleMaker",
    "Rendezvous",
    "Role",
    "RoleMaker",
    "UserDefinedCollectiveRoleMaker",
    "UserDefinedRoleMaker",
    "discover",
]
