"""`fleet.ray.Trainer`: Ray Train's trainer, with servers beside its workers."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ray.experimental.internal_kv import _internal_kv_del
from ray.train import ControllerError, DataConfig, Result, RunConfig, ScalingConfig
from ray.train.v2._internal.callbacks import DatasetsCallback
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from fleet import env
from fleet.engines.ray.datasets import DividedDatasets, divided
from fleet.engines.ray.reports import DeathsAside, ServedCallback, nodes_key
from fleet.engines.ray.servers import ServerGroup
from fleet.engines.ray.workers import FleetConfig
from fleet.errors import CommunicationError, UsageError
from fleet.job.description import Description

POLL_S = 0.5
"""How often Ray looks after the workers of a job with servers, where RAY_TRAIN_HEALTH_CHECK_INTERVAL_S does not say."""


class Trainer(DataParallelTrainer):
    """Trains on a Ray cluster, with parameter servers or without: `fit` returns Ray's `Result`.

    `train_func` is an ordinary script's body: `fleet.init`, a model, a loop. It runs in `workers` actors of a worker
    group of Ray Train, and `ray.train.report`, `get_dataset_shard` and the rest of Ray Train work in it.

    With `servers`, as many actors in a placement group hold tables and dense parameters (`resources_per_server`, one
    CPU each unless said; `server_placement` is a strategy of Ray's). A server or a worker that dies, alone or with its
    node, is started again where there is room, and goes on where it was: what it knew is in `journal`, a folder that
    all nodes share, by default below the `storage_path` of `run_config`. `fit` of the same name there goes on with a
    run that did not come to its end.

    Without `servers` the job is collective, and this is Ray's DataParallelTrainer with `FleetConfig` as its backend.

        run = ray.train.RunConfig(name="clicks", storage_path="/shared/runs")
        trainer = fleet.ray.Trainer(train, servers=2, workers=4, run_config=run)
        print(trainer.fit().metrics)
    """

    def __init__(
        self,
        train_func: Callable[..., Any],
        *,
        servers: int = 0,
        workers: int | tuple[int, int] | None = None,
        resources_per_server: Mapping[str, float] | None = None,
        resources_per_worker: Mapping[str, float] | None = None,
        server_placement: str = "SPREAD",
        journal: str | Path | None = None,
        train_loop_config: dict[str, Any] | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: Mapping[str, Any] | None = None,
        dataset_config: DataConfig | None = None,
        validation_config: Any = None,
    ) -> None:
        scaling = _scaling(workers, resources_per_worker, scaling_config)
        run = run_config or RunConfig()
        for_servers = {
            "resources_per_server": resources_per_server,
            "journal": journal,
            "server_placement": None if server_placement == "SPREAD" else server_placement,
        }
        if servers < 0:
            raise UsageError(f"servers must be a whole number of at least 0, got {servers!r}")
        if not servers and (vain := [name for name, value in for_servers.items() if value is not None]):
            raise UsageError(f"{vain[0]} is for servers, of which this job has none; give servers=, or leave it out")
        if servers and not (isinstance(scaling.num_workers, int) and scaling.num_workers):
            raise UsageError(
                f"a job with servers has a number of workers, got {scaling.num_workers!r}; give workers=4, say"
            )
        if servers and dataset_config is not None:
            raise UsageError(
                "dataset_config is for jobs without servers, beside which each worker has an equal part; leave it out"
            )
        self._resources = dict(resources_per_server or {"CPU": 1})
        self._placement = server_placement
        self._job = None
        if servers:
            name = f"ray-{secrets.token_hex(4)}"
            self._job = Description(
                num_workers=scaling.num_workers,
                servers=f"ray:{name}",
                num_servers=servers,
                durable=str(_folder(run, journal)),
                token=secrets.token_hex(32),
                name=name,
            )
        self._servers: ServerGroup | None = None
        self._parts = datasets or {}
        super().__init__(
            train_func,
            train_loop_config=train_loop_config,
            backend_config=FleetConfig(self._job),
            scaling_config=scaling,
            run_config=run,
            datasets={} if servers else datasets,
            dataset_config=dataset_config,
            validation_config=validation_config,
        )

    def fit(self) -> Result:
        """Train to the end, and remove what the job kept; raises what Ray raises, or a server that is gone for good."""
        job = self._job
        if job is None:
            return super().fit()
        env.prefer("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", str(POLL_S))
        self._servers = ServerGroup(job, self._resources, self._placement)
        try:
            result = super().fit()
        except ControllerError as error:
            if isinstance(error.controller_failure, CommunicationError):  # a server is gone for good
                raise error.controller_failure from None
            raise
        finally:
            self._servers.stop()
            _internal_kv_del(nodes_key(job.name))
        shutil.rmtree(str(job.durable), ignore_errors=True)
        return result

    def _create_default_callbacks(self) -> list[Any]:
        found: list[Any] = super()._create_default_callbacks()
        if self._servers is None:
            return found
        parts = DividedDatasets(divided(self._parts, self.scaling_config.num_workers))
        found = [parts if isinstance(one, DatasetsCallback) else one for one in found]
        return [*found, ServedCallback(self._servers.actors)]

    def _initialize_and_run_controller(self, **arguments: Any) -> Result:
        if self._job is not None:
            arguments["failure_policy"] = DeathsAside(self.run_config.failure_config)
        return super()._initialize_and_run_controller(**arguments)


def _scaling(
    workers: int | tuple[int, int] | None, resources: Mapping[str, float] | None, given: ScalingConfig | None
) -> ScalingConfig:
    """The ScalingConfig that was given, or the one that `workers` and `resources_per_worker` stand for."""
    if given is None:
        return ScalingConfig(
            num_workers=1 if workers is None else workers,
            resources_per_worker=None if resources is None else dict(resources),
        )
    if twice := [name for name, one in (("workers", workers), ("resources_per_worker", resources)) if one is not None]:
        raise UsageError(f"{twice[0]} and scaling_config were given, which has it too; leave one of them out")
    return given


def _folder(run: RunConfig, journal: str | Path | None) -> Path:
    """Where a run keeps what its next life needs."""
    parent = str(run.storage_path if journal is None else journal)
    if "://" in parent:
        raise UsageError(f"servers cannot keep a journal in {parent}; give journal=, a folder that all nodes share")
    return Path(parent).expanduser().absolute() / str(run.name) / "fleet"
