"""What a worker has when it has joined its servers: they know its job, and model and servers agree on all values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from fleet.errors import NotSupportedError
from fleet.jobfiles.ending import begin_work
from fleet.observe.metrics.steps import StepCount
from fleet.ps.job.patience import is_elastic, step_timeout_s
from fleet.ps.together.resharding import Wishes
from fleet.ps.together.worker_meetings import WorkerMeetings
from fleet.ps.worker.asking.given_rows import write_rows
from fleet.ps.worker.life.carried import Carried, StoredProgress
from fleet.ps.worker.life.inputs import StepInputs
from fleet.ps.worker.life.passing import Passing
from fleet.ps.worker.life.redo import Redo
from fleet.ps.worker.modes import make_push_policy
from fleet.ps.worker.modes.base import PushPolicy, Setup
from fleet.ps.worker.modes.sync import Sync
from fleet.ps.worker.parts.contract import Done, StepPart
from fleet.ps.worker.sending.kept_tensors import ChangedTensors, KeptTensors, take_kept
from fleet.strategy.mode import Mode

if TYPE_CHECKING:
    import torch

    from fleet.ps.worker.asking.given_rows import GivenRows
    from fleet.ps.worker.calling.client import Client
    from fleet.ps.worker.life.progress import ScriptProgress
    from fleet.ps.worker.sending.flat import FlatParameters
    from fleet.strategy.parameter_server import ASyncConfigs


@dataclass(frozen=True)
class Joined:
    """All that a `Worker` is made of, but for the parts that model and strategy hang on its steps."""

    client: Client
    policy: PushPolicy
    flat: FlatParameters | None
    """What servers hold of the dense parameters."""
    device: torch.device
    kept: KeptTensors
    done: Done
    progress: ScriptProgress | None
    passing: Passing | None
    parts: Sequence[StepPart]

    def close(self) -> None:
        """Close the connections: there will be no worker."""
        self.client.close()
        self.policy.close()
        for part in self.parts:
            part.close()


def join(
    client: Client,
    take: Callable[[], FlatParameters | None],
    device: torch.device,
    configs: ASyncConfigs,
    kept: KeptTensors | None = None,
    progress: ScriptProgress | None = None,
    first_rows: Mapping[int, GivenRows] | None = None,
    begin_reshard: Callable[[int], None] = lambda _: None,
    num_optimizers: int = 1,
) -> Joined:
    """Declare the job to the servers, then take the tensors that they hold and agree on their first values.

    First values, and first rows of tables, are worker 0's, unless the servers have some already. `begin_reshard` is
    called where `fleetrun reshard` wants another number of servers.
    """
    job, kept = client.job, kept or KeptTensors()
    if is_elastic() and not job.is_elastic:
        raise NotSupportedError("workers come and go (--worker_num A:B) in jobs of torch modules only; give one number")
    policy = None
    try:
        is_started, version = client.declare()
        flat = take()
        is_first = client.worker == 0 and not is_started
        if is_first:
            _give_first(client, flat, kept, first_rows or {})
        policy = make_push_policy(Setup(client, flat, device, version, configs, num_optimizers))
        policy.refresh(is_exact=not client.resumed_updates)  # after a former life, in the format that it had them in
        done = Done(version if job.mode == Mode.SYNC else 0, client.resumed_updates, count=StepCount(num_optimizers))
        wishes = Wishes(client, begin_reshard)
        passing = None
        if isinstance(policy, Sync) and job.num_workers > 1 and not job.is_elastic:
            passing = Passing(client, policy, done, progress, wishes.look, partial(_most_steps, client))
        parts = [wishes, *_go_on(client, policy, flat, done, progress, num_optimizers)]
        if not is_first:
            take_kept(client, kept)
        _keep_changed(kept, progress)
        begin_work()
    except BaseException:
        client.close()
        if policy is not None:
            policy.close()
        raise
    return Joined(client, policy, flat, device, kept, done, progress, passing, parts)


def _most_steps(client: Client, end: str, num_steps: int, others: Sequence[int]) -> int:
    """The most steps that a worker has made when an epoch ends; the others took part in its last step."""
    meetings = WorkerMeetings(client, "epochs", step_timeout_s())
    said = meetings.meet(end, str(num_steps), "the end of an epoch", others=others, is_between_steps=True)
    return max(int(text) for text in said if text)


def _keep_changed(kept: KeptTensors, progress: ScriptProgress | None) -> None:
    """Have what the script changes of the rest of its model go with every push, and take up what a former life had."""
    if progress is None or not kept:
        return
    changed = ChangedTensors(kept)
    stored = progress.add_part("kept", changed.state, changed.restore)
    if stored is not None:
        changed.restore(stored)


def _give_first(
    client: Client, flat: FlatParameters | None, kept: KeptTensors, first_rows: Mapping[int, GivenRows]
) -> None:
    """Give servers that have begun anew the first values of everything, which are those of this worker."""
    if flat is None and not kept and not first_rows:
        return
    for table, rows in first_rows.items():
        write_rows(client, table, rows)
    groups = range(len(client.job.dense.groups))
    client.start(
        [
            [*(flat.values(server, group) for group in groups if flat is not None), *kept.values(server)]
            for server in range(client.job.num_servers)
        ]
    )


def _go_on(
    client: Client,
    policy: PushPolicy,
    flat: FlatParameters | None,
    done: Done,
    progress: ScriptProgress | None,
    num_optimizers: int,
) -> list[StepPart]:
    """Begin where a former life of this worker was, if it had one and the servers have steps of it."""
    if progress is None:
        return []
    progress.check_run(client.run)
    progress.resume(client.resumed_position)
    done.num_updates -= progress.num_redone
    done.count.go_to(progress.num_steps, progress.num_steps_of_others)
    sent = flat if num_optimizers > 1 and client.job.dense.groups and not policy.trains_locally else None
    carried = Carried(progress, done.count, sent)
    parts: list[StepPart] = [carried, StoredProgress(progress, done.count, carried)]
    inputs = StepInputs.of(client.worker) if client.job.mode == Mode.SYNC else None
    if inputs is not None:
        redo = Redo(inputs, flat, policy, carried, done.num_updates + 1, client.resumed_updates)
        progress.at_redo(redo.begin_again)
        parts.append(redo)
    return parts
