"""Which source speaks for this process, for `fleet.init()` without a role maker.

Where an engine has said the role outright (`engine`), nobody else is asked. Otherwise every source with variables is.
None: a single worker. Several: they must agree, and the first in the order cloud, torchrun, Slurm, MPI is taken, which
matters for where the workers meet. What a launcher inherited from the launcher around it does not count as a voice.
"""

from __future__ import annotations

from fleet import env
from fleet.env import Environ
from fleet.errors import RoleError
from fleet.roles import cloud, engine, mpi_env, slurm, torchrun
from fleet.roles.base import Identity, Role, RoleMaker


def discover(is_collective: bool = False, environ: Environ | None = None) -> RoleMaker:
    """The role maker of this process, its role already worked out; RoleError if the sources do not agree.

    >>> discover(environ={}).worker_num()
    1
    """
    maker = DiscoveredRoleMaker(is_collective, environ)
    maker.generate_role()
    return maker


def spoken(is_collective: bool = False, environ: Environ | None = None) -> Identity | None:
    """What the first source says of this process, without meeting anybody; None if none speaks."""
    return next(iter(_voices(is_collective, environ)), None)


class DiscoveredRoleMaker(RoleMaker):
    """What `discover` returns."""

    def __init__(self, is_collective: bool, environ: Environ | None) -> None:
        super().__init__()
        self.is_collective = is_collective
        self._environ = environ

    def _generate(self) -> Identity:
        voices = _voices(self.is_collective, self._environ)
        if not voices:
            return Identity(role=Role.WORKER, index=0, num_workers=1, source="no launcher (a single worker)")
        for other in voices[1:]:
            _compare(voices[0], other)
        identity = voices[0]
        if identity.num_servers == 0:  # only MPI's variables leave workers without a place to meet
            identity, self._hold = mpi_env.meet(identity)
        return identity


def _voices(is_collective: bool, environ: Environ | None) -> list[Identity]:
    if engine.speaks(environ):
        return [engine.read(is_collective, environ)]
    first = cloud.read(is_collective, environ)
    is_fleetrun = env.FLEET_JOB_ID.text(environ) is not None
    if is_fleetrun and first is not None and first.role is Role.SERVER:
        return [first]  # fleetrun gives its servers no RANK; one that is there came from outside
    outer = [] if is_fleetrun or env.TORCHELASTIC_RUN_ID.text(environ) else _schedulers(environ)
    others = [voice for voice in (first, *outer) if voice is not None]
    second = None if _is_explained(others, environ) else torchrun.read(environ)
    return [voice for voice in (first, second, *outer) if voice is not None]


def _schedulers(environ: Environ | None) -> list[Identity | None]:
    """Slurm and MPI, when neither is merely around the launcher that started this process.

    mpirun starts its own daemons by srun, so that under it Slurm's variables describe a daemon. The reverse
    holds for srun's PMI plugin: it sets PMI_RANK, but not the variables of mpirun.
    """
    if slurm.is_task(environ) and mpi_env.is_from_srun(environ):
        return [slurm.read(environ)]
    inner = mpi_env.read(environ)
    if inner is not None and inner.num_workers > 1:
        return [inner]
    return [slurm.read(environ), inner]


def _is_explained(others: list[Identity], environ: Environ | None) -> bool:
    """WORLD_SIZE without RANK: job scripts export it for srun's tasks. It must be true, and adds nothing."""
    count = env.WORLD_SIZE.get(environ)
    if not others or count is None or env.RANK.text(environ) is not None:
        return False
    first = others[0]
    if count != first.num_workers:
        raise RoleError(f"WORLD_SIZE={count}, but {first.source} says {first.num_workers} workers; unset WORLD_SIZE")
    return True


def _compare(one: Identity, other: Identity) -> None:
    if (one.role, one.index, one.num_workers) != (other.role, other.index, other.num_workers):
        raise RoleError(
            f"{one.source} says {_say(one)}, but {other.source} says {_say(other)}; unset the variables "
            "of the one that is wrong, or pass a role maker to fleet.init()"
        )


def _say(who: Identity) -> str:
    return f"{who.role.name.lower()} {who.index} of a job with {who.num_workers} workers"
