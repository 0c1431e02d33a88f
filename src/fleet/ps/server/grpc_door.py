"""What every call to a server must pass before it is answered: it shows the token and finds room."""

from __future__ import annotations

import hmac
import logging
import resource
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import grpc

from fleet.errors import FleetError
from fleet.ps.server.strangers import Strangers
from fleet.ps.wire.budget import SMALL_BYTES, MessageBudget, OverBudgetError
from fleet.ps.wire.messages import MAX_MESSAGE_BYTES
from fleet.ps.wire.status import MARK_KEY, SIZE_KEY, TOKEN_KEY, code_of, one_line

_log = logging.getLogger(__name__)

Continuation = Callable[[Any], Any]


def abort(context: grpc.ServicerContext, code: grpc.StatusCode, text: str) -> NoReturn:
    """End a call with an error of our own; does not return."""
    context.set_trailing_metadata(((MARK_KEY, "1"),))
    context.abort(code, one_line(text))


def failure_of(method: str, error: Exception) -> tuple[grpc.StatusCode, str]:
    """The status and the text by which a caller learns of an error; one that is not ours goes into the log."""
    if isinstance(error, OverBudgetError):
        return grpc.StatusCode.RESOURCE_EXHAUSTED, one_line(str(error))
    if isinstance(error, FleetError):
        return code_of(error), one_line(str(error))
    _log.error("%s failed", method, exc_info=error)
    text = f"{method} failed with {type(error).__name__}: {error}; the server's log has the trace"
    return grpc.StatusCode.INTERNAL, one_line(text)


def most_connections(limit: int) -> int:
    """So many connections, but no more than half of the files that may be open: saves need some, too."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit if files == resource.RLIM_INFINITY else min(limit, max(16, files // 2))


PROBE = "/grpc.health.v1.Health/Check"
"""What kubelet asks, which has no token: whether a server serves. `Watch` would keep a thread, and asks for it."""


class TokenGuard(grpc.ServerInterceptor):
    """Refuses every call that does not carry the token, also to methods that do not exist; a probe has its answer."""

    def __init__(self, token: str, strangers: Strangers, probed: Callable[[grpc.ServicerContext], Any]) -> None:
        self._token = token.encode()
        self._probe: grpc.RpcMethodHandler[Any, Any] = (
            grpc.stream_unary_rpc_method_handler(  # for a stream, so that no request is read
                lambda _requests, context: probed(context), response_serializer=lambda reply: reply.SerializeToString()
            )
        )
        self._refuse = {why: _refusal(why, strangers) for why in ("no token", "another token")}

    def intercept_service(self, continuation: Continuation, handler_call_details: Any) -> Any:
        """The next handler, or a refusal."""
        token = dict(handler_call_details.invocation_metadata).get(TOKEN_KEY, "")
        given = token if isinstance(token, bytes) else token.encode(errors="replace")
        if hmac.compare_digest(given, self._token):
            return continuation(handler_call_details)
        if handler_call_details.method == PROBE:
            return self._probe
        return self._refuse["another token" if given else "no token"]


def _refusal(why: str, strangers: Strangers) -> grpc.RpcMethodHandler[Any, Any]:
    """A handler that refuses without reading the request, because it is made for a stream of requests."""

    def refuse(_requests: Iterator[bytes], context: grpc.ServicerContext) -> Any:
        strangers.refused(context.peer(), why)
        abort(
            context,
            grpc.StatusCode.UNAUTHENTICATED,
            f"this process has {why}; set FLEET_JOB_TOKEN to the same value on every process",
        )

    return grpc.stream_unary_rpc_method_handler(refuse)


class SizeGuard(grpc.ServerInterceptor):
    """Takes in a large request only once there is room for it: its size is in the metadata."""

    def __init__(self, budget: MessageBudget) -> None:
        self._budget = budget

    def intercept_service(self, continuation: Continuation, handler_call_details: Any) -> Any:
        """The next handler, behind one that waits for room where the request is large."""
        handler = continuation(handler_call_details)
        size = _announced(dict(handler_call_details.invocation_metadata).get(SIZE_KEY, ""))
        if handler is None or handler.unary_unary is None or size <= SMALL_BYTES:
            return handler
        answer = handler.unary_unary

        def take(requests: Iterator[bytes], context: grpc.ServicerContext) -> Any:
            try:
                with self._budget.account() as account:
                    account.hold(size)
                    return answer(next(requests, b""), context)
            except OverBudgetError as error:
                abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))

        return grpc.stream_unary_rpc_method_handler(take)


def _announced(text: str | bytes) -> int:
    """The size that a caller says its request has; nonsense counts as 0, and the request counts as it arrives."""
    digits = text.decode(errors="replace") if isinstance(text, bytes) else text
    is_number = digits.isascii() and digits.isdigit() and len(digits) < 20
    return min(int(digits), MAX_MESSAGE_BYTES) if is_number else 0
