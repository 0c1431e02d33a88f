"""What keeps a job alive, whoever starts its processes: fleetrun, an engine, or a shell.

`description` says to each process who it is; `restart_policy` whether one that died lives again, `lives` whose place is
due and who is back, `comebacks` what happened, in words; `keeper` looks after one process. fleetrun is the first user
of `lives`; an engine that starts processes again itself needs `description` alone.
"""

from typing import TYPE_CHECKING

from fleet._lazy import lazily

if TYPE_CHECKING:
    from fleet.job.description import Description as Description
    from fleet.job.keeper import keep as keep

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazily(__name__, {"description": "Description", "keeper": "keep"})
