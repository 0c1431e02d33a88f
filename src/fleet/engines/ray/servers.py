"""The servers of a job on Ray: actors in a placement group of their own, which Ray starts again when they die."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError
from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_put
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from fleet import env
from fleet.errors import CommunicationError, NotReadyError, UsageError
from fleet.job.description import Description
from fleet.net import Directory, Endpoint, add_kind
from fleet.ps.server.server import Server

PLACE_S = 120.0
"""How long Ray may take to find room for all servers; a cluster may have to grow for them."""
STOP_S = 20.0
LOOK_S = 0.5
LOCKED_S = 30.0
"""How long a server's next life waits for a former one that still has its journal, as on a node that Ray gave up."""
MAX_RESTARTS = 100
"""How often Ray starts a server again; nodes that were taken away with notice do not count."""


class RayDirectory(Directory):
    """Where the servers of a job listen now, in the store of Ray's head node: `ray:JOB` names it to workers."""

    def __init__(self, job: str) -> None:
        self._job = job

    def find(self, server: int) -> Endpoint | None:
        """Where a server listens; None if it has not said."""
        try:
            found = _internal_kv_get(self._key(server))
        except (RayError, OSError, RuntimeError) as error:
            raise CommunicationError(
                f"Ray does not say where server {server} listens; does its head node run? {error}"
            ) from None
        return None if found is None else Endpoint.parse(found.decode())

    def announce(self, server: int, endpoint: Endpoint) -> None:
        """Say where it listens from now on."""
        _internal_kv_put(self._key(server), str(endpoint), overwrite=True)

    def forget(self, num_servers: int) -> None:
        """Remove what was said of so many servers."""
        for server in range(num_servers):
            _internal_kv_del(self._key(server))

    def _key(self, server: int) -> str:
        return f"fleet/{self._job}/server-{server}"


add_kind("ray", RayDirectory)


def tell(variables: Mapping[str, str]) -> None:
    """Have Fleet find these variables in this process. The rest stays: other threads of Ray's read it."""
    for variable in env.variables():
        if variable.name in variables:
            variable.put(variables[variable.name])


class ServerActor:
    """A parameter server. Where the actor is started again, it takes up its journal and says where it listens now."""

    def __init__(self, index: int, job: Description, resources: Mapping[str, float]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that this is deprecated; nothing has taken its place
            is_back = ray.get_runtime_context().was_current_actor_reconstructed
        tell(job.variables("server", index, life=int(is_back)))
        if "memory" in resources:
            env.FLEET_MEMORY_BUDGET.put(str(int(resources["memory"])))
        self._server = _started(
            index,
            endpoint=f"{ray.util.get_node_ip_address()}:0",
            directory=RayDirectory(str(job.name)),
            device="cuda" if resources.get("GPU") else "cpu",
        )
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, name="fleet-watch", daemon=True).start()

    def endpoint(self) -> str:
        """Where it listens."""
        return self._server.endpoint

    def stop(self) -> None:
        """Stop serving in order."""
        self._stopped.set()
        self._server.stop()

    def _watch(self) -> None:
        """Have Ray start this server again when it must be."""
        while not self._stopped.wait(LOOK_S):
            try:
                self._server.wait(0.0)
            except NotReadyError:
                return
            except CommunicationError as error:
                print(f"server: {error}", file=sys.stderr, flush=True)
                os._exit(1)


def _started(index: int, **settings: Any) -> Server:
    deadline = time.monotonic() + LOCKED_S
    while True:
        try:
            server = Server(index, **settings)
            server.start()
            return server
        except UsageError as error:
            if "another server keeps its journal" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


class ServerGroup:
    """All servers of a job; `stop` ends them and gives their room back."""

    def __init__(self, job: Description, resources: Mapping[str, float], placement: str) -> None:
        """Returns when they have room; workers wait until they listen. CommunicationError if there is none."""
        self.actors: list[Any] = []
        self._job, num = job, job.num_servers or 0
        self._group = placement_group([dict(resources)] * num, strategy=placement)
        try:
            if not self._group.wait(PLACE_S):
                free = {name: count for name, count in ray.available_resources().items() if name in resources}
                raise CommunicationError(
                    f"Ray has found no room for {num} servers with {dict(resources)} each within {PLACE_S:g} s, free "
                    f"are {free}; add nodes, or ask for less by servers= and resources_per_server="
                )
            self.actors += [self._start(index, resources) for index in range(num)]
        except BaseException:
            self.stop()
            raise

    def _start(self, index: int, resources: Mapping[str, float]) -> Any:
        own = dict(resources)
        return (
            ray.remote(ServerActor)
            .options(
                num_cpus=own.pop("CPU", 0),
                num_gpus=own.pop("GPU", 0),
                memory=own.pop("memory", None),
                resources=own,
                scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=index),
                max_restarts=MAX_RESTARTS,
                max_task_retries=-1,
                name=f"{self._job.name}-server-{index}",
            )
            .remote(index, self._job, dict(resources))
        )

    def stop(self) -> None:
        """End all servers, in order where they answer; idempotent."""
        actors, self.actors = self.actors, []
        with suppress(GetTimeoutError, RayActorError):
            ray.get([actor.stop.remote() for actor in actors], timeout=STOP_S)
        for actor in actors:
            ray.kill(actor)
        remove_placement_group(self._group)
        RayDirectory(str(self._job.name)).forget(self._job.num_servers or 0)


def check(index: int, answer: Any) -> None:
    """CommunicationError, with the cause, if this server, which has answered, is gone for good."""
    try:
        ray.get(answer)
    except RayActorError as error:
        lines = str(error).strip().splitlines()
        cause = next((line for line in reversed(lines) if "Error: " in line), lines[-1]).strip()
        raise CommunicationError(f"server {index} is gone, and Ray does not start it again: {cause}") from None
