"""A push that is several: workers of one machine have added their gradients, and a server counts it as all theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from fleet.errors import UsageError
from fleet.ps.held.update import PushedUpdate

if TYPE_CHECKING:
    from fleet.ps.job.spec import JobSpec
    from fleet.ps.proto import ps_pb2


class Claim(NamedTuple):
    """Whose push it is, of which life, and the how many-eth."""

    worker: int
    incarnation: int
    sequence: int


def claims_of(header: ps_pb2.PushRequest.Header) -> list[Claim]:
    """The claims of a push: one, or one for each worker whose gradients it has, in their order."""
    caller = header.caller
    members = [Claim(one.worker, one.incarnation, one.sequence) for one in header.members]
    return members or [Claim(caller.worker, caller.incarnation, header.sequence)]


def check_members(header: ps_pb2.PushRequest.Header, job: JobSpec, *, is_durable: bool) -> None:
    """UsageError unless a push that says it is several can be."""
    if not header.members:
        return
    workers = [one.worker for one in header.members]
    who = f"push of worker {header.caller.worker} for workers {', '.join(map(str, workers))}"
    if job.mode != "sync" or is_durable:
        raise UsageError(f"{who}: gradients are combined in synchronous jobs that are not durable, and this one is not")
    if workers != sorted(set(workers)) or workers[-1] >= job.num_workers or header.caller.worker not in workers:
        raise UsageError(f"{who}: these are not workers of this job, ascending, with the caller among them")
    if header.is_pass != all(one.is_pass for one in header.members):
        raise UsageError(f"{who}: it is a pass where each of them is one")


def shares_of(header: ps_pb2.PushRequest.Header, update: PushedUpdate) -> list[PushedUpdate]:
    """An update for each worker: the first that has a batch has the gradients of all, the others have none.

    The mean of a step is over the pushes, with gradients or without: so it is what it would be had each come alone.
    """
    if not header.members:
        return [update]
    carrier = next((one.worker for one in header.members if not one.is_pass), header.members[0].worker)
    shares = []
    for one in header.members:
        own = update if one.worker == carrier else replace(update, tables=(), dense={}, lrs={}, absent=())
        shares.append(
            replace(
                own,
                worker=one.worker,
                sequence=one.sequence,
                steps=one.steps,
                position=one.position,
                is_pass=one.is_pass,
            )
        )
    return shares
