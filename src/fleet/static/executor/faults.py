"""When a kernel fails: which operator it was, and where the user's script made it."""

from __future__ import annotations

from types import TracebackType

from fleet.errors import FleetError, NotReadyError, UsageError
from fleet.static.executor.emit import Step
from fleet.static.operator import REMOTE, Operator

_SPOKEN = {"fused_fc": "fc", "fused_mean_loss": "cross_entropy", "fused_softmax_loss_grad": "cross_entropy_grad"}
"""What fused operators were."""


def explained(error: Exception, step: Step) -> Exception:
    """The error to raise: one line that begins with the line of the script, if the fault lies in the program."""
    if isinstance(error, KeyError) and error.args and error.args[0] in step.reads:
        return NotReadyError(
            f"variable {error.args[0]!r} has no value; run the startup program first: "
            "exe.run(default_startup_program())"
        )
    op = _operator(error.__traceback__, step)
    if op is None or op.role == REMOTE:
        return error
    site = f"{op.callsite}: " if op.callsite else ""
    kind = _SPOKEN.get(op.type, op.type)
    if type(error) is UsageError and not str(error).startswith(site or "\0"):
        return UsageError(f"{site}{kind}: {error}")
    if not isinstance(error, FleetError) and type(error) in (RuntimeError, IndexError, ValueError, TypeError):
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return UsageError(f"{site}{kind}: {first}")
    return error


def _operator(traceback: TracebackType | None, step: Step) -> Operator | None:
    """The operator at whose line of the compiled program an error passed."""
    while traceback is not None:
        if traceback.tb_frame.f_code is getattr(step.function, "__code__", None):
            return step.lines.get(traceback.tb_lineno)
        traceback = traceback.tb_next
    return None
