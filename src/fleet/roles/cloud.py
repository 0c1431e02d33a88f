"""Roles from the variables of PaddlePaddle's launchers, PaddleCloud and `fleetrun`, in every spelling."""

from __future__ import annotations

from typing import Never

from fleet import env
from fleet.checks import flag_of
from fleet.env import Environ
from fleet.errors import NotSupportedError, RoleError, UsageTypeError, VariableError
from fleet.net import Endpoint
from fleet.roles import engine, mpi_env, slurm, torchrun
from fleet.roles.arguments import agreed, no_such_argument
from fleet.roles.base import Identity, Rendezvous, Role, RoleMaker
from fleet.roles.cloud_servers import LISTS, own_index, read_servers
from fleet.roles.seat import listed_workers, master, seat_of

ROLES = (env.TRAINING_ROLE, env.PADDLE_TRAINING_ROLE)
COUNTS = (env.PADDLE_TRAINERS_NUM, env.PADDLE_NUM_TRAINERS, env.PADDLE_TRAINERS)
# Without POD_IP and PADDLE_PORT: Kubernetes jobs often set the first for anybody, and they prove nothing.
SPEAKING = (*ROLES, *COUNTS, *LISTS, env.PADDLE_TRAINER_ID, env.PADDLE_TRAINER_ENDPOINTS)


def speaks(environ: Environ | None) -> bool:
    """Whether any variable here says something about this process."""
    return any(variable.text(environ) is not None for variable in SPEAKING)


def read(is_collective: bool, environ: Environ | None) -> Identity | None:
    """For `discover`: None when nothing here speaks; workers without servers are a collective job."""
    if not speaks(environ):
        return None
    has_servers = any(variable.text(environ) for variable in LISTS)
    alone = not has_servers and env.PADDLE_TRAINER_ENDPOINTS.text(environ) and _role(environ) is not Role.SERVER
    return read_collective(environ) if is_collective or alone else read_servers_mode(environ)


def read_collective(environ: Environ | None) -> Identity:
    """Workers alone; without PADDLE_TRAINER_ENDPOINTS a single one."""
    if _role(environ) is Role.SERVER:
        raise RoleError(
            "TRAINING_ROLE=PSERVER makes this process a server, but a collective job has none; start it "
            "without servers, or leave out is_collective=True"
        )
    index = env.PADDLE_TRAINER_ID.get(environ) or 0
    count = agreed(COUNTS, environ)
    workers = listed_workers(env.PADDLE_TRAINER_ENDPOINTS, environ)
    if not workers:
        if count not in (None, 1) or index:
            raise VariableError(
                "PADDLE_TRAINER_ENDPOINTS",
                f"is not set, but {_claim(count, index)}; list every worker's HOST:PORT there",
            )
        return _single()
    if count not in (None, len(workers)):
        raise RoleError(
            f"PADDLE_TRAINERS_NUM={count}, but PADDLE_TRAINER_ENDPOINTS lists {len(workers)} workers; mend one of them"
        )
    who = Identity(
        role=Role.WORKER,
        index=index,
        num_workers=len(workers),
        source="PaddleCloud (PADDLE_TRAINER_ID, PADDLE_TRAINER_ENDPOINTS)",
        worker_endpoints=workers,
        rendezvous=Rendezvous(workers[0]),
    )
    return _settled(who, environ)


def read_servers_mode(environ: Environ | None) -> Identity:
    """Workers and servers; without any list of servers a single worker."""
    role = _role(environ)
    servers = read_servers(environ)
    if not servers:
        return _without_servers(role, environ)
    workers = listed_workers(env.PADDLE_TRAINER_ENDPOINTS, environ)
    count = agreed(COUNTS, environ)
    if count is None:
        count = len(workers) or env.PADDLE_TRAINERS_NUM.require("every process needs the number of workers", environ)
    if role is None:
        raise VariableError("TRAINING_ROLE", "is not set; say TRAINER for a worker or PSERVER for a server")
    if role is Role.SERVER:
        index = own_index(servers, environ)
    else:
        index = env.PADDLE_TRAINER_ID.require("a worker needs its index, from 0", environ)
    who = Identity(
        role=role,
        index=index,
        num_workers=count,
        source="PaddleCloud (TRAINING_ROLE, PADDLE_TRAINER_ID, PADDLE_TRAINERS_NUM)",
        server_endpoints=servers,
        worker_endpoints=workers,
        rendezvous=_rendezvous(workers, environ),
    )
    return _settled(who, environ)


def _without_servers(role: Role | None, environ: Environ | None) -> Identity:
    name = "PADDLE_PSERVERS_IP_PORT_LIST"
    if role is Role.SERVER:
        raise VariableError(name, "is not set, but TRAINING_ROLE=PSERVER; list every server's HOST:PORT there")
    count, index = agreed(COUNTS, environ), env.PADDLE_TRAINER_ID.get(environ) or 0
    if count is None:
        count = len(listed_workers(env.PADDLE_TRAINER_ENDPOINTS, environ)) or 1
    if count != 1 or index:
        raise VariableError(
            name,
            f"is not set, but {_claim(count, index)}; list the servers there, or for a job without servers "
            "set PADDLE_TRAINER_ENDPOINTS and use is_collective=True",
        )
    return _single()


def _settled(who: Identity, environ: Environ | None) -> Identity:
    """A worker's own endpoint checked against the list, and its seat filled in; a server as it is."""
    if who.role is Role.SERVER:
        return who
    _check_own_endpoint(who, environ)
    in_node = env.PADDLE_RANK_IN_NODE.get(environ)
    return seat_of(who, env.LOCAL_RANK.get(environ) if in_node is None else in_node, environ).given_to(who)


def _role(environ: Environ | None) -> Role | None:
    text = agreed(ROLES, environ)
    if text == "HETER_TRAINER":
        raise NotSupportedError("TRAINING_ROLE=HETER_TRAINER is not supported; use TRAINER or PSERVER")
    return None if text is None else Role.SERVER if text == "PSERVER" else Role.WORKER


def _check_own_endpoint(who: Identity, environ: Environ | None) -> None:
    text = env.PADDLE_CURRENT_ENDPOINT.get(environ)
    if text is None or not who.worker_endpoints:
        return
    own, listed = Endpoint.parse(text, env.PADDLE_CURRENT_ENDPOINT.name), who.worker_endpoints
    if own != listed[who.index]:
        where = f"worker {listed.index(own)}" if own in listed else "none of them"
        raise RoleError(
            f"PADDLE_CURRENT_ENDPOINT={own}, but PADDLE_TRAINER_ID={who.index} is {listed[who.index]} in "
            f"PADDLE_TRAINER_ENDPOINTS ({own} is {where}); mend one of them"
        )


def _rendezvous(workers: tuple[Endpoint, ...], environ: Environ | None) -> Rendezvous | None:
    if workers:
        return Rendezvous(workers[0])
    text = env.PADDLE_GLOO_HTTP_ENDPOINT.get(environ)
    where = master(environ) if text is None else Endpoint.parse(text, env.PADDLE_GLOO_HTTP_ENDPOINT.name)
    return None if where is None else Rendezvous(where)


def _claim(count: int | None, index: int) -> str:
    return f"PADDLE_TRAINER_ID={index}" if count in (None, 1) else f"the job has {count} workers"


def _single() -> Identity:
    return Identity(role=Role.WORKER, index=0, num_workers=1, source="PaddleCloud (a single worker)")


class PaddleCloudRoleMaker(RoleMaker):
    """Reads the role from PADDLE_* variables, as `fleetrun` and PaddlePaddle's launchers set them.

    Where FLEET_ROLE is set, an engine has said the role, and that counts. With no variable set the process is a
    single worker: the same script runs alone. `init_gloo` is accepted with either value: workers that know where to
    meet can always talk to each other.

    >>> PaddleCloudRoleMaker(environ={}).worker_num()
    1
    """

    def __init__(
        self,
        is_collective: bool = False,
        init_gloo: bool = False,
        *,
        environ: Environ | None = None,
        **unknown: Never,
    ) -> None:
        super().__init__()
        for name in unknown:
            raise UsageTypeError(
                no_such_argument("PaddleCloudRoleMaker", name, ("is_collective", "init_gloo", "environ"))
            )
        flag_of("init_gloo", init_gloo)
        self.is_collective = flag_of("is_collective", is_collective)
        self._environ = environ

    def _generate(self) -> Identity:
        if engine.speaks(self._environ):
            return engine.read(self.is_collective, self._environ)
        if not speaks(self._environ):
            self._refuse_other_launchers()
        return read_collective(self._environ) if self.is_collective else read_servers_mode(self._environ)

    def _refuse_other_launchers(self) -> None:
        """Under torchrun or srun each process would take itself for the only one, and train alone."""
        for other in (torchrun.read, slurm.read, mpi_env.read):
            identity = other(self._environ)
            if identity is not None and identity.num_workers > 1:
                raise RoleError(
                    f"PaddleCloudRoleMaker found no PADDLE_* variable, but {identity.source} started "
                    f"{identity.num_workers} workers; call fleet.init() without a role maker, "
                    "or start with fleetrun"
                )
