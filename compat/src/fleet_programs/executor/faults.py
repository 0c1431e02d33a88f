"""When a kernel fails: which operator it was, and where the user's script made it."""

from __future__ import annotations

from types import TracebackType

from fleet.errors import FleetError, NotReadyError, UsageError
from fleet_programs.definition.infer import site_of
from fleet_programs.definition.operator import REMOTE, Operator
from fleet_programs.executor.emit import Step

_SPOKEN = {
    "fused_fc": "fc",
    "fused_mean_loss": "cross_entropy",
    "fused_softmax_loss_grad": "cross_entropy_grad",
    "fused_mul_sgd": "sgd",
    "fused_bias_sgd": "sgd",
    "fused_sgd": "sgd",
    "fused_momentum": "momentum",
    "fused_adam": "adam",
    "fused_adamw": "adamw",
}
"""What fused operators were."""

_FAULTS = (RuntimeError, IndexError, ValueError, TypeError, AttributeError)
"""What kernels raise at values that they cannot take."""


class PartError(UsageError):
    """A fault of one of the operators that the failing one stands for: `part` is its number among them."""

    def __init__(self, part: int, message: str) -> None:
        super().__init__(message)
        self.part = part


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
    if isinstance(error, PartError) and op.parts:
        part = op.parts[error.part]
        return UsageError(f"{site_of(part)}{part.type}: {error}")
    site = site_of(op)
    kind = _SPOKEN.get(op.type, op.type)
    if type(error) in (UsageError, PartError) and not str(error).startswith(site or "\0"):
        return UsageError(f"{site}{kind}: {error}")
    if not isinstance(error, FleetError) and type(error) in _FAULTS:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if "Unset" in first:
            first = "a variable that it reads has no value, for no branch that was taken wrote it; assign one before"
        return UsageError(f"{site}{kind}: {first}")
    return error


def _operator(traceback: TracebackType | None, step: Step) -> Operator | None:
    """The operator at whose line of the compiled program an error passed; in a block that it runs, the inner one."""
    codes = {getattr(one.function, "__code__", None): one.lines for one in (step, *step.bodies)}
    found = None
    while traceback is not None:
        if (lines := codes.get(traceback.tb_frame.f_code)) is not None:
            found = lines.get(traceback.tb_lineno, found)
        traceback = traceback.tb_next
    return found
