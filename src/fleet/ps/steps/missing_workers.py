"""What keeps a synchronous step from its end, as a server knows it: which workers have not sent their part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.errors import OutdatedError
from fleet.jobfiles.joining import unstopped_text
from fleet.observe.waits.waiting import Awaited, workers_text
from fleet.ps.job.patience import longest_wait_s

if TYPE_CHECKING:
    from fleet.ps.held.holdings import Holdings
    from fleet.ps.steps.rounds import Rounds


def awaited_by_all(holdings: Holdings, rounds: Rounds) -> Awaited:
    """What the present step waits for; outside synchronous mode nothing, once dense parameters have values."""
    if not holdings.is_started:
        return Awaited("worker 0 to send the first values of the dense parameters", (0,))
    missing = tuple(rounds.missing()) if holdings.job.mode == "sync" else ()
    if not missing:
        return Awaited("")
    return Awaited(f"the gradients of {workers_text(missing)}, step {rounds.version}", missing)


def too_late(holdings: Holdings, rounds: Rounds, timeout_ms: int) -> str:
    """The error of a wait that ran out."""
    waited = f"waited {min(timeout_ms / 1000, longest_wait_s()):g} s"
    if not holdings.is_started:
        return f"{waited} for {awaited_by_all(holdings, rounds).what}"
    missing = ", ".join(map(str, rounds.missing()))
    return (
        f"{waited} for step {rounds.version}: no gradients from worker {missing}. Is it slow or gone? "
        "FLEET_STEP_TIMEOUT_S sets how long to wait"
    )


def loaded_meanwhile(worker: int, step: int) -> OutdatedError:
    """The error of a wait for a step whose pushes are gone."""
    return OutdatedError(
        f"a checkpoint was loaded while worker {worker} waited for step {step}, whose gradients are not for it; every "
        "worker calls fleet.load_model(), at the same step"
    )


def forsaken(holdings: Holdings, rounds: Rounds) -> str | None:
    """The error of a wait for workers that have ended without taking leave; None if there are none."""
    if not rounds.gone:
        return None
    missing = [worker for worker in awaited_by_all(holdings, rounds).workers if worker in rounds.gone]
    if not missing:
        return None
    return unstopped_text(workers_text(missing))
