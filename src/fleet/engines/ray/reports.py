"""What is not as in Ray Train where one worker is replaced while the others go on: reports, and who is replaced."""

from __future__ import annotations

import json
import queue
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import RayActorError
from ray.experimental.internal_kv import _internal_kv_get
from ray.train import PreemptionInfo
from ray.train.v2._internal.execution.callback import WorkerGroupCallback
from ray.train.v2._internal.execution.context import get_train_context
from ray.train.v2._internal.execution.failure_handling import DefaultFailurePolicy, FailureDecision
from ray.train.v2._internal.execution.train_fn_utils import DistributedTrainFnUtils, set_train_fn_utils

from fleet import env
from fleet.engines.ray.servers import check
from fleet.errors import UsageError

WINDOW_S = 3600.0
MAX_DEATHS = 20
"""How often workers may die within `WINDOW_S` before deaths count as failures of the training function do."""


class ServedUtils(DistributedTrainFnUtils):
    """What `ray.train.report` and its like do in a worker of a job with servers."""

    def report(self, metrics: dict[str, Any], checkpoint: Any = None, *more: Any, **named: Any) -> None:
        """Have Ray know at once what worker 0 reports; the others report nothing, and nobody waits for them.

        Ray's own report waits until all workers have called it. The next life of a worker makes its last step again
        and nothing before that, so they would wait for a report that never comes.
        """
        context = get_train_context()
        if context.get_world_rank() == 0:
            super().report(metrics, checkpoint, *more, **named)
            if checkpoint is not None:
                context.get_result_queue().join()  # the controller has it; a worker that dies now has not lost it
        elif checkpoint is not None:
            raise UsageError(
                "a checkpoint was reported by another worker than 0, whose reports alone count in a job with servers; "
                "leave checkpoint= out there"
            )

    def get_preemption_info(self) -> PreemptionInfo | None:
        """Which nodes are about to be taken away, and which workers are there; no worker waits for another."""
        draining = ray._private.state.state.get_draining_nodes()
        known = json.loads(_internal_kv_get(nodes_key(env.FLEET_JOB_ID.require("a job on Ray has one"))) or "{}")
        taken = {node: ranks for node, ranks in known.items() if node in draining}
        if not taken:
            return None
        return PreemptionInfo(min((draining[node] for node in taken if draining[node]), default=None), taken)


class _Reports(queue.Queue[Any]):
    """Worker 0's reports. Ray throws away what living workers have in theirs when it replaces a dead one."""

    def get_nowait(self) -> Any:
        if sys._getframe(1).f_code.co_name == "clear_result_queue":
            raise queue.Empty
        return super().get_nowait()


def use_served_utils() -> None:
    """Have this worker report so, before the training function runs."""
    context = get_train_context()
    context.execution_context = replace(context.execution_context, result_queue=_Reports(maxsize=1))
    set_train_fn_utils(ServedUtils())


def nodes_key(job: str | None) -> str:
    """Where Ray's controller notes which workers are on which node."""
    return f"fleet/{job}/nodes"


class ServedCallback(WorkerGroupCallback):
    """In Ray's controller: reports are those of worker 0, and the job ends when a server is gone for good."""

    def __init__(self, servers: Sequence[Any]) -> None:
        self._servers = servers
        self._asked: dict[Any, int] = {}

    def after_worker_group_start(self, worker_group: Any) -> None:
        """Have Ray wait for no report but worker 0's."""
        worker_group.set_required_barrier_ranks([0])
        for callback in worker_group._callbacks:
            if hasattr(callback, "set_required_ranks"):  # Ray's ReportCallbackHandler
                callback.set_required_ranks([0])

    def after_worker_group_poll_status(self, worker_group_status: Any) -> None:  # noqa: ARG002
        """Ask each server whether it is there, and wait for no answer."""
        if not self._asked:
            self._asked = {server.endpoint.remote(): index for index, server in enumerate(self._servers)}
        answered, _ = ray.wait(list(self._asked), num_returns=len(self._asked), timeout=0)
        for answer in answered:
            check(self._asked.pop(answer), answer)


class DeathsAside(DefaultFailurePolicy):
    """A worker whose process has died is replaced, whatever `max_failures` is: that counts errors of the function."""

    _deaths: tuple[float, ...] = ()

    def make_decision(self, training_failed_error: Exception) -> FailureDecision:
        """Whether the job goes on."""
        failures = list(getattr(training_failed_error, "worker_failures", {}).values())
        if failures and all(isinstance(getattr(one, "health_check_failure", None), RayActorError) for one in failures):
            now = time.monotonic()
            self._deaths = (*(at for at in self._deaths if now - at < WINDOW_S), now)
            if len(self._deaths) <= MAX_DEATHS:
                return FailureDecision.RETRY
        return super().make_decision(training_failed_error)
