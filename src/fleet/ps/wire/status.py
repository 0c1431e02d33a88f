"""Errors on the wire: which gRPC status stands for which exception, the same table on both sides.

A server marks the errors it raised itself, so that their text reaches the caller as it is; what gRPC reports in its
own words (a broken connection, a deadline) is put into our words, with the endpoint, the method and the remedy.
"""

from collections.abc import Iterable

import grpc

from fleet.errors import (
    CheckpointError,
    CommunicationError,
    DeadlineError,
    FleetError,
    MovedError,
    NotReadyError,
    NotSupportedError,
    OutdatedError,
    UsageError,
    UsageTypeError,
)

Code = grpc.StatusCode


class FailedServerError(CommunicationError):
    """A server takes nothing more until a checkpoint is loaded."""


TOKEN_KEY = "fleet-token"
"""Metadata of every call: the job's token."""
SIZE_KEY = "fleet-bytes"
"""Metadata of a call with a large request: how many bytes it has, so that a server can make room first."""
MARK_KEY = "fleet-error"
"""Trailing metadata of an error that the server itself raised."""

_CODES: tuple[tuple[type[FleetError], grpc.StatusCode], ...] = (
    (UsageError, Code.INVALID_ARGUMENT),
    (UsageTypeError, Code.INVALID_ARGUMENT),
    (NotReadyError, Code.FAILED_PRECONDITION),
    (DeadlineError, Code.DEADLINE_EXCEEDED),
    (NotSupportedError, Code.UNIMPLEMENTED),
    (CheckpointError, Code.DATA_LOSS),
    (MovedError, Code.OUT_OF_RANGE),
    (OutdatedError, Code.ALREADY_EXISTS),
    (FailedServerError, Code.NOT_FOUND),
    (CommunicationError, Code.ABORTED),
)
_CLASSES: dict[grpc.StatusCode, type[FleetError]] = {
    Code.INVALID_ARGUMENT: UsageError,
    Code.FAILED_PRECONDITION: NotReadyError,
    Code.DEADLINE_EXCEEDED: DeadlineError,
    Code.UNIMPLEMENTED: NotSupportedError,
    Code.DATA_LOSS: CheckpointError,
    Code.OUT_OF_RANGE: MovedError,
    Code.ALREADY_EXISTS: OutdatedError,
    Code.NOT_FOUND: FailedServerError,
}
# Errors that pass: the server starts, restarts or has too many calls.
_PASSING = (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED)
_NUMBERS: dict[int, grpc.StatusCode] = {code.value[0]: code for code in Code}
# Statuses travel in headers, which have little room; a letter takes up to three times its bytes there.
_MAX_TEXT_BYTES = 2000


def code_of(error: FleetError) -> grpc.StatusCode:
    """The status that stands for an error raised by a service."""
    if isinstance(error, CommunicationError) and error.retryable:
        return Code.UNAVAILABLE
    return next((code for kind, code in _CODES if isinstance(error, kind)), Code.INTERNAL)


def one_line(text: str) -> str:
    """A text that fits into a status."""
    return " ".join(text.split()).encode(errors="replace")[:_MAX_TEXT_BYTES].decode(errors="ignore")


def error_of(failed: grpc.RpcError, endpoint: str, method: str, timeout_s: float) -> FleetError:
    """The exception for a call that failed; `failed` is what gRPC raised, which is the call itself."""
    assert isinstance(failed, grpc.Call)
    code, text = failed.code(), failed.details() or ""
    is_answer = _is_marked(failed.trailing_metadata())
    if not is_answer:
        text = _said_anew(code, text, method, timeout_s)
    error = _CLASSES.get(code, CommunicationError)(f"server {endpoint}: {text}")
    if isinstance(error, CommunicationError):
        error.retryable, error.is_answer = code in _PASSING, is_answer
    return error


def error_of_number(number: int, text: str, endpoint: str) -> FleetError:
    """The exception for an error that a server has told by its status' number, as the data plane does."""
    code = _NUMBERS.get(number, Code.INTERNAL)
    error = _CLASSES.get(code, CommunicationError)(f"server {endpoint}: {text}")
    if isinstance(error, CommunicationError):
        error.retryable, error.is_answer = code in _PASSING, True
    return error


def unreachable(endpoint: str, method: str, why: str) -> CommunicationError:
    """The exception for a call whose connection was lost; it may be made again."""
    error = CommunicationError(f"server {endpoint}: {_said_anew(Code.UNAVAILABLE, why, method, 0)}")
    error.retryable = True
    return error


def _is_marked(metadata: Iterable[tuple[str, str | bytes]] | None) -> bool:
    return any(key == MARK_KEY for key, _ in metadata or ())


def _said_anew(code: grpc.StatusCode, text: str, method: str, timeout_s: float) -> str:
    if code is Code.DEADLINE_EXCEEDED:
        return f"no answer to {method} within {timeout_s:g} s"
    if code is Code.UNAVAILABLE:
        return f"cannot be reached for {method} ({text.rpartition(': ')[2]}); is it running, and is this its address?"
    if code is Code.UNIMPLEMENTED:
        return f"knows no {method}; start it with the same version of Fleet as this process"
    if code is Code.CANCELLED:
        return f"{method} was given up, because this process closed the connection"
    return f"{method} failed with {code.name}: {one_line(text)}"
