"""What Ray's workers are told, so that the training function finds its role when it calls `fleet.init`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray
from ray.experimental.internal_kv import _internal_kv_put
from ray.train._internal.utils import get_address_and_port
from ray.train.backend import Backend, BackendConfig

from fleet.engines.ray.reports import nodes_key, use_served_utils
from fleet.engines.ray.servers import tell
from fleet.job.description import Description


@dataclass
class FleetConfig(BackendConfig):
    """The backend of a DataParallelTrainer of Ray, for collective jobs; `Trainer` makes it by itself.

    `job` describes one with servers.
    """

    job: Description | None = None

    @property
    def backend_cls(self) -> type[Backend]:
        """What Ray's controller asks."""
        return CollectiveBackend if self.job is None else ServedBackend

    @property
    def train_func_context(self) -> Any:
        """What Ray puts around the training function."""
        return _in_order


class CollectiveBackend(Backend):
    """Workers meet where worker 0 is. When one dies, Ray starts all of them again."""

    share_cuda_visible_devices = True  # as LOCAL_RANK counts

    def on_start(self, worker_group: Any, backend_config: FleetConfig) -> None:  # noqa: ARG002
        """Tell all workers who they are and where they meet."""
        host, port = worker_group.execute_single(0, get_address_and_port)
        told = []
        for worker in worker_group.get_workers():
            where = worker.distributed_context
            seat = {
                "LOCAL_RANK": str(where.local_rank),
                "LOCAL_WORLD_SIZE": str(where.local_world_size),
                "MASTER_ADDR": host,
                "MASTER_PORT": str(port),
            }
            job = Description(where.world_size)
            told.append(worker.execute_async(tell, job.variables("worker", where.world_rank) | seat))
        ray.get(told)


class ServedBackend(Backend):
    """Workers find their servers. One that dies is replaced alone, and its next life goes on where it was."""

    has_replica_groups = True

    def __init__(self) -> None:
        self._lives: Counter[int] = Counter()
        self._nodes: dict[int, str] = {}

    def on_start(self, worker_group: Any, backend_config: FleetConfig) -> None:
        """Tell all workers, or the one that takes the place of another, who they are."""
        job = backend_config.job
        assert job is not None
        told = []
        for worker in worker_group.get_workers():
            rank = worker.distributed_context.world_rank
            variables = job.variables("worker", rank, life=self._lives[rank])
            told.append(worker.execute_async(_be_served, variables))
            self._lives[rank] += 1
            self._nodes[rank] = worker.metadata.node_id
        ray.get(told)
        ranks = {node: [rank for rank, one in self._nodes.items() if one == node] for node in self._nodes.values()}
        _internal_kv_put(nodes_key(job.name), json.dumps(ranks), overwrite=True)


def _be_served(variables: Mapping[str, str]) -> None:
    """Runs in a worker before the training function does."""
    tell(variables)
    use_served_utils()


@contextmanager
def _in_order() -> Iterator[None]:
    """Around the training function: a worker that comes to its end has left its servers, or its group."""
    from fleet.api import fleet

    try:
        yield
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise
    fleet.stop_worker()
    fleet.shutdown()
