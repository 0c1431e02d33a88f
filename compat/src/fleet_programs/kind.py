"""Programs as a kind of job that Fleet is told of; importing `fleet_programs` does so."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.runtime.modules.servers import Servers
    from fleet_programs.jobs.job import ProgramJob


class ProgramKind:
    """What `fleet.distributed_optimizer` asks where it is given an optimizer of programs."""

    def owns(self, optimizer: object) -> bool:
        """Whether an optimizer is one of this package, whose optimizers are not imported to find out."""
        module = sys.modules.get("fleet_programs.optimizer.base")
        return module is not None and isinstance(optimizer, module.Optimizer)

    def begin(self, servers: Servers, is_collective: bool) -> ProgramJob:
        """The job of this process, with no program yet."""
        from fleet_programs.jobs.job import ProgramJob

        return ProgramJob(servers, is_collective)
