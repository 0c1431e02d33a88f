"""How long somebody may wait for others before the job ends with a report."""

from __future__ import annotations

from typing import Final

from fleet import env

DEFAULT_TIMEOUT_S: Final = 600.0


def served_timeout_s() -> float:
    """In a job with servers.

    Who has set FLEET_STEP_TIMEOUT_S alone lets a step take as long as that says.
    """
    return env.FLEET_STALL_TIMEOUT_S.get() or max(DEFAULT_TIMEOUT_S, env.FLEET_STEP_TIMEOUT_S.get() or 0.0)
