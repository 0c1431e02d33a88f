"""Parameters that somebody has changed by hand, though the servers have their values."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from fleet.errors import UsageError

if TYPE_CHECKING:
    from fleet.ps.job.spec import JobSpec
    from fleet.ps.worker.modes.base import PushPolicy
    from fleet.ps.worker.sending.flat import FlatParameters

log = logging.getLogger(__name__)


def refuse_changes(names: Sequence[str], flat: FlatParameters, policy: PushPolicy, job: JobSpec) -> None:
    """UsageError for parameters whose values are the servers' and were changed here; a warning outside sync mode."""
    what = "parameter %r was changed by hand after fleet.init_worker(), but its value is on the servers; "
    remedy = "change it before that call; fleet.load_model() loads what was saved"
    if job.mode != "sync":  # the servers' values have changed meanwhile, so they cannot be compared
        log.warning(f"{what}{remedy}", names[0])
        return
    mine = flat.value_buffer.clone()
    policy.refresh()
    theirs = {name: value.clone() for name, value in flat.parameters() if name in names}
    flat.value_buffer.copy_(mine)
    form = getattr(torch, job.dense.value_format)  # the format that they travel in since the first step
    for name, value in flat.parameters():
        if name in names and not any(torch.equal(value, theirs[name].to(one).float()) for one in (torch.float32, form)):
            raise UsageError(f"{what}{remedy}" % name)
