"""`fleet.init` as scripts of PaddlePaddle call it: again in one process, with another role, as notebooks and tests do.

Fleet itself refuses that, since a job of several processes would fall apart. Here the former job is over: its worker
takes leave of the servers, its server stops, ports and threads are given back, and the new role begins with nothing
of it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fleet.api import fleet as shared
from fleet.errors import NotReadyError
from fleet.roles import RoleMaker
from fleet.roles.discover import spoken

if TYPE_CHECKING:
    from fleet.api import Fleet
    from fleet.roles import Identity
    from fleet.strategy import DistributedStrategy

_log = logging.getLogger(__name__)


def init(
    role_maker: RoleMaker | None = None,
    is_collective: bool = False,
    strategy: DistributedStrategy | None = None,
) -> Fleet:
    """Learn who this process is; a role other than before replaces the former job.

    Without a role maker the environment is asked each time, since a notebook may have changed it. With the role and the
    kind of job that there are already, nothing is replaced.
    """
    return init_on(shared, role_maker, is_collective, strategy)


def init_on(
    job: Fleet,
    role_maker: RoleMaker | None = None,
    is_collective: bool = False,
    strategy: DistributedStrategy | None = None,
) -> Fleet:
    """The same for one Fleet object."""
    if (former := _former(job)) is not None and _is_another(job, former, role_maker, is_collective):
        end_former(job)
    return job.init(role_maker, is_collective, strategy)


def end_former(job: Fleet) -> None:
    """Leave the servers of the former job as well as it goes, then close everything that this process holds of it."""
    try:
        job.stop_worker()
    except Exception as error:  # its servers may be gone, and the new job has nothing to do with that
        _log.warning("the former job of this process did not end well: %s", error)
    job.shutdown()


def _former(job: Fleet) -> RoleMaker | None:
    try:
        return job.role
    except NotReadyError:
        return None


def _is_another(job: Fleet, former: RoleMaker, given: object, is_collective: bool) -> bool:
    if given is None:
        if is_collective and not job.is_collective():
            return True
        said = spoken(is_collective or job.is_collective())
        return said is not None and not _same(said, former.identity)
    if not isinstance(given, RoleMaker):
        return False  # which Fleet says
    kind = is_collective or given.is_collective
    return given is not former and (kind != job.is_collective() or not _same(given.identity, former.identity))


def _same(one: Identity, other: Identity) -> bool:
    """Whether two say the same of a process; where workers meet may have been agreed on since."""
    return _said(one) == _said(other)


def _said(who: Identity) -> tuple[object, ...]:
    return who.role, who.index, who.num_workers, who.server_endpoints, who.worker_endpoints
