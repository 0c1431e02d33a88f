"""A server anywhere on the network, reached by gRPC."""

from __future__ import annotations

from concurrent.futures import Future

import grpc
from google.protobuf.message import Message

from fleet.errors import CommunicationError, FleetError
from fleet.ps.wire.budget import SMALL_BYTES
from fleet.ps.wire.keepalive import client_options
from fleet.ps.wire.messages import MAX_MESSAGE_BYTES, METHODS, SERVICE, Tensors, decode, encode
from fleet.ps.wire.status import SIZE_KEY, TOKEN_KEY, error_of
from fleet.ps.wire.transport import Answer, Transport
from fleet.ps.wire.trust.tls import Tls
from fleet.ps.wire.trust.tls_probe import why_closed, why_failed

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.enable_http_proxy", 0),  # servers are on the job's own network; a proxy of the site only breaks that
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    *client_options(),
    # Servers start at the same time as workers and come back after a failure: look again soon, for a job stands still.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 250),
    ("grpc.min_reconnect_backoff_ms", 2_000),  # by its name; it is how long one attempt may take
    ("grpc.dns_min_time_between_resolutions_ms", 500),  # a server may come back under another address of its name
    # The caller decides what may be sent twice.
    ("grpc.enable_retries", 0),
    # A connection of its own: that one transport is closed, or fails, does not concern another.
    ("grpc.use_local_subchannel_pool", 1),
)


class GrpcTransport(Transport):
    """A connection to one server, opened by the first call and again whenever it was lost.

    Errors are those the server raised, or a CommunicationError; its `retryable` says whether it is worth another try.
    Callbacks of a future run on a thread of gRPC and must not block.
    """

    def __init__(self, endpoint: str, token: str | None, tls: Tls | None = None) -> None:
        self.endpoint = endpoint
        self._tls = tls
        self._was_answered = False
        self._metadata: tuple[tuple[str, str], ...] = ((TOKEN_KEY, token),) if token else ()
        self._channel = (
            grpc.insecure_channel(endpoint, options=OPTIONS)
            if tls is None
            else grpc.secure_channel(endpoint, tls.for_client(), options=(*OPTIONS, *tls.client_options))
        )
        # Neither side of the call is given a serializer: what goes through gRPC is bytes.
        self._methods: dict[str, grpc.UnaryUnaryMultiCallable[bytes, bytes]] = {
            name: self._channel.unary_unary(f"/{SERVICE}/{name}") for name in METHODS
        }

    def call(self, method: str, header: Message, tensors: Tensors, timeout_s: float) -> Answer:
        answer: Answer = Future()
        answer.set_running_or_notify_cancel()
        try:
            request = encode(f"{method}Request", header, tensors)
            metadata = self._metadata
            if len(request) > SMALL_BYTES:
                metadata = (*metadata, (SIZE_KEY, str(len(request))))
            running = self._methods[method].future(request, timeout=timeout_s, metadata=metadata)
        except FleetError as error:
            answer.set_exception(error)
        except ValueError:  # what gRPC raises on a closed channel
            answer.set_exception(CommunicationError(f"server {self.endpoint}: the connection is closed"))
        else:
            running.add_done_callback(lambda done: self._finish(done, answer, method, timeout_s))
        return answer

    def _finish(self, done: grpc.Future[bytes], answer: Answer, method: str, timeout_s: float) -> None:
        try:
            reply = decode(f"{method}Reply", done.result())
            self._was_answered = True
            answer.set_result(reply)
        except grpc.RpcError as error:
            answer.set_exception(self._refusal(error) or error_of(error, self.endpoint, method, timeout_s))
        except grpc.FutureCancelledError:
            answer.set_exception(CommunicationError(f"server {self.endpoint}: the connection was closed in {method}"))
        except CommunicationError as error:
            answer.set_exception(CommunicationError(f"server {self.endpoint}: {error}"))
        except BaseException as error:
            answer.set_exception(error)  # whatever it is: whoever waits for the answer must get it

    def _refusal(self, failed: grpc.RpcError) -> CommunicationError | None:
        """Why no call will ever succeed, if it is about TLS; a server that has answered once has nothing against us."""
        assert isinstance(failed, grpc.Call)
        if self._was_answered or failed.code() is not grpc.StatusCode.UNAVAILABLE:
            return None
        text = failed.details() or ""
        reason = why_failed(text, self._tls)
        if reason is None and text.endswith("Socket closed"):
            reason = why_closed(self.endpoint, self._tls)
        return None if reason is None else CommunicationError(f"server {self.endpoint}: {reason}")

    def close(self) -> None:
        self._channel.close()
