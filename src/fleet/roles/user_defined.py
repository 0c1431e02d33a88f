"""Roles from the user's own arguments, checked as they are given."""

from __future__ import annotations

from typing import overload

from fleet.checks import flag_of
from fleet.errors import UnknownFieldError, UsageError, UsageTypeError
from fleet.net import Endpoint, refuse_duplicates
from fleet.roles.arguments import endpoints, no_such_argument, whole
from fleet.roles.base import Identity, Rendezvous, Role, RoleMaker
from fleet.roles.seat import seat_among

Endpoints = list[str] | tuple[str, ...]

_FIRST_SIGNATURE = ("current_id", "role", "worker_num", "server_endpoints")
_SECOND_SIGNATURE = ("is_collective", "init_gloo")
_NAMES = (*_SECOND_SIGNATURE, *_FIRST_SIGNATURE, "worker_endpoints")


class _Given(RoleMaker):
    """A role maker that knew everything when it was made."""

    def __init__(self, identity: Identity, is_collective: bool) -> None:
        super().__init__()
        self.is_collective = is_collective
        self._given = identity

    def _generate(self) -> Identity:
        return self._given


class UserDefinedRoleMaker(_Given):
    """The role as arguments, in the signature of Paddle 1.x or of 2.x.

    Workers that know where to meet, at the first of `worker_endpoints`, can always talk to each other, so
    `init_gloo` is accepted with either value and switches nothing. With `worker_num=0` it is the number of
    `worker_endpoints`.

    >>> servers, workers = ["127.0.0.1:6170"], ["127.0.0.1:6180", "127.0.0.1:6181"]
    >>> UserDefinedRoleMaker(current_id=1, server_endpoints=servers, worker_endpoints=workers).worker_num()
    2
    """

    @overload
    def __init__(
        self,
        current_id: int = 0,
        role: Role = Role.WORKER,
        worker_num: int = 0,
        server_endpoints: Endpoints | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        is_collective: bool = False,
        init_gloo: bool = False,
        *,
        current_id: int = 0,
        role: Role = Role.WORKER,
        worker_num: int = 0,
        server_endpoints: Endpoints | None = None,
        worker_endpoints: Endpoints | None = None,
    ) -> None: ...

    def __init__(self, *args: object, **kwargs: object) -> None:
        given = _by_name(args, kwargs)
        is_collective = flag_of("is_collective", given.get("is_collective", False))
        flag_of("init_gloo", given.get("init_gloo", False))
        role = given.get("role", Role.WORKER)
        if not isinstance(role, Role):
            raise UsageTypeError(f"role must be Role.WORKER or Role.SERVER, got {role!r}")
        index = whole("current_id", given.get("current_id", 0), least=0)
        listed = given.get("worker_endpoints")
        workers = () if listed in (None, [], ()) else endpoints("worker_endpoints", listed)
        count = whole("worker_num", given.get("worker_num", 0), least=0) or len(workers)
        servers: tuple[Endpoint, ...] = ()
        if is_collective:
            _check_collective(role, count, workers, given.get("server_endpoints"))
        else:
            servers = _servers(given.get("server_endpoints"))
            refuse_duplicates((*servers, *workers), "server_endpoints with worker_endpoints")
        if count == 0:
            raise UsageError("worker_num must be > 0, got 0; give the number of workers, or worker_endpoints")
        if role is Role.SERVER and index >= len(servers):
            raise UsageError(f"current_id must be below the number of servers, got {index} of {len(servers)} servers")
        who = _identity("UserDefinedRoleMaker", role, index, count, servers, workers)
        super().__init__(who, is_collective)


class UserDefinedCollectiveRoleMaker(_Given):
    """Workers alone, with the endpoint of each.

    >>> UserDefinedCollectiveRoleMaker(1, ["127.0.0.1:6170", "127.0.0.1:6171"]).worker_index()
    1
    """

    def __init__(self, current_id: int = 0, worker_endpoints: Endpoints | None = None) -> None:
        index = whole("current_id", current_id, least=0)
        workers = endpoints("worker_endpoints", worker_endpoints)
        who = _identity("UserDefinedCollectiveRoleMaker", Role.WORKER, index, len(workers), (), workers)
        super().__init__(who, is_collective=True)


def _identity(
    source: str,
    role: Role,
    index: int,
    count: int,
    servers: tuple[Endpoint, ...],
    workers: tuple[Endpoint, ...],
) -> Identity:
    who = Identity(
        role=role,
        index=index,
        num_workers=count,
        source=source,
        server_endpoints=servers,
        worker_endpoints=workers,
        rendezvous=Rendezvous(workers[0]) if workers else None,
    )
    is_placed = role is Role.WORKER and workers
    return seat_among([worker.host for worker in workers], index).given_to(who) if is_placed else who


def _by_name(args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
    """Arguments by name. A first positional bool is 2.x's `is_collective`, else it is 1.x's `current_id`."""
    names = _SECOND_SIGNATURE if args and isinstance(args[0], bool) else _FIRST_SIGNATURE
    if len(args) > len(names):
        raise UsageTypeError(f"UserDefinedRoleMaker takes at most ({', '.join(names)}) by position, got {len(args)}")
    given = dict(zip(names, args, strict=False))
    for name in kwargs:
        if name in given:
            raise UsageTypeError(f"UserDefinedRoleMaker got {name} twice, by position and by name")
        if name not in _NAMES:
            raise UnknownFieldError(no_such_argument("UserDefinedRoleMaker", name, _NAMES))
    return given | kwargs


def _servers(given: object) -> tuple[Endpoint, ...]:
    if given is None:
        raise UsageTypeError(
            "server_endpoints is not given; give one HOST:PORT for each server, or is_collective=True for a job "
            "without servers"
        )
    return endpoints("server_endpoints", given)


def _check_collective(role: Role, count: int, workers: tuple[Endpoint, ...], servers: object) -> None:
    if role is Role.SERVER:
        raise UsageError("role=Role.SERVER with is_collective=True: a collective job has no servers; drop one of them")
    if servers:
        raise UsageError("server_endpoints with is_collective=True: a collective job has no servers; drop one of them")
    if count > 1 and not workers:
        raise UsageError(f"worker_endpoints is not given, but worker_num={count}; give one HOST:PORT for each worker")
