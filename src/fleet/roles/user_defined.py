"""Roles from the user's own arguments, checked as they are given."""

from __future__ import annotations

import difflib
from typing import overload

from fleet.errors import EndpointError, UnknownFieldError, UsageError, UsageTypeError
from fleet.net import Endpoint, refuse_duplicates
from fleet.roles.base import Identity, Rendezvous, Role, RoleMaker
from fleet.roles.place import place_among

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

    `init_gloo` is accepted with either value: workers can always talk to each other here, so there is nothing
    to switch on. With `worker_num=0` it is the number of `worker_endpoints`.

    >>> UserDefinedRoleMaker(0, Role.WORKER, 2, ["127.0.0.1:6170"]).worker_num()
    2
    """

    @overload
    def __init__(
        self,
        current_id: int = 0,
        role: Role = Role.WORKER,
        worker_num: int = 0,
        server_endpoints: list[str] | None = None,
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
        server_endpoints: list[str] | None = None,
        worker_endpoints: list[str] | None = None,
    ) -> None: ...

    def __init__(self, *args: object, **kwargs: object) -> None:
        given = _by_name(args, kwargs)
        is_collective = _flag("is_collective", given.get("is_collective", False))
        _flag("init_gloo", given.get("init_gloo", False))
        role = given.get("role", Role.WORKER)
        if not isinstance(role, Role):
            raise UsageTypeError(f"role must be Role.WORKER or Role.SERVER, got {role!r}")
        index = _whole("current_id", given.get("current_id", 0), least=0)
        listed = given.get("worker_endpoints")
        workers = () if listed is None or listed == [] else _endpoints("worker_endpoints", listed)
        count = _whole("worker_num", given.get("worker_num", 0), least=0) or len(workers)
        servers: tuple[Endpoint, ...] = ()
        if is_collective:
            _check_collective(role, count, workers, given.get("server_endpoints"))
        else:
            servers = _endpoints("server_endpoints", given.get("server_endpoints"))
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

    def __init__(self, current_id: int = 0, worker_endpoints: list[str] | None = None) -> None:
        index = _whole("current_id", current_id, least=0)
        workers = _endpoints("worker_endpoints", worker_endpoints)
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
    return place_among([worker.host for worker in workers], index).seat(who) if is_placed else who


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
            near = difflib.get_close_matches(name, _NAMES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(_NAMES)}"
            raise UnknownFieldError(f"UserDefinedRoleMaker has no argument {name}; {hint}")
    return given | kwargs


def _check_collective(role: Role, count: int, workers: tuple[Endpoint, ...], servers: object) -> None:
    if role is Role.SERVER:
        raise UsageError("role=Role.SERVER with is_collective=True: a collective job has no servers; drop one of them")
    if servers:
        raise UsageError("server_endpoints with is_collective=True: a collective job has no servers; drop one of them")
    if count > 1 and not workers:
        raise UsageError(f"worker_endpoints is not given, but worker_num={count}; give one HOST:PORT for each worker")


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageTypeError(f"{name} must be True or False, got {value!r}")
    return value


def _whole(name: str, value: object, *, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageTypeError(f"{name} must be an int, got {value!r}")
    if value < least:
        raise UsageError(f"{name} must be >= {least}, got {value}")
    return value


def _endpoints(name: str, value: object) -> tuple[Endpoint, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageTypeError(f'{name} must be a list of "HOST:PORT" strings, got {value!r}')
    if not value:
        raise EndpointError(f"{name} must not be empty; give one HOST:PORT for each process")
    endpoints = tuple(Endpoint.parse(item, name) for item in value)
    refuse_duplicates(endpoints, name)
    return endpoints
